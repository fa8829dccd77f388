"""Processors, and who keeps them busy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_resilience.preflight.checks.node.load import cpus, load, numbers_in
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import (
    V2,
    context,
    only,
    process,
    tree,
)


def machine(load_: float, *processes: dict[str, str]) -> dict[str, str]:
    files = {"proc/loadavg": f"{load_} 0.50 0.50 2/97 12025", "sys/devices/system/cpu/online": "0-3"}
    for each in processes:
        files |= each
    return files


@pytest.mark.parametrize(
    ("load_", "processes", "outcome"),
    [
        (0.1, [], "ok"),
        (40, [], "ok"),  # of a job that has just ended
        (3, [process(7, "python", "R", job="99")], "ok"),
        (40, [process(7, "python", "R", job="99")], "warn"),
        (40, [process(7, "python", "R", job="13")], "ok"),  # it is ours
        (40, [process(7, "kworker/0:1", "R", parent=2)], "ok"),
        (0.1, [process(7, "cp", "D")], "warn"),
        (0.1, [process(7, "jbd2/sda", "D", parent=2)], "ok"),
        (0.1, [process(7, "a (b) c", "S")], "ok"),
    ],
)
def test_processors_that_others_keep_busy_and_processes_that_are_stuck(
    tmp_path: Path, load_: float, processes: list[dict[str, str]], outcome: str
):
    root = tree(tmp_path, machine(load_, *processes))
    found = only(load, context(root, {"SLURM_JOB_ID": "13"}), sleep=lambda _: None)
    assert found.outcome.value == outcome
    assert found.measured["cpus"] == 4


def test_a_process_that_waited_for_a_moment_is_not_stuck(tmp_path: Path):
    root = tree(tmp_path, machine(0.1, process(7, "cp", "D")))

    def it_goes_on(_seconds: float) -> None:
        tree(root, process(7, "cp", "S"))

    found = only(load, context(root), sleep=it_goes_on)
    assert found.outcome is Outcome.OK


def test_the_other_checks_that_run_meanwhile_are_no_strangers(tmp_path: Path):
    own = process(7, "python", "R", parent=os.getppid())
    root = tree(tmp_path, machine(40, own, process(8, "python", "R", parent=7)))
    assert only(load, context(root), sleep=lambda _: None).outcome is Outcome.OK


def test_load_without_proc_is_skipped(tmp_path: Path):
    assert only(load, context(tmp_path), sleep=lambda _: None).outcome is Outcome.SKIPPED


def test_cpuinfo_is_read_by_no_check_for_it_takes_seconds_on_large_machines():  # mej/nhc#141
    from slurm_resilience.preflight import checks

    folder = Path(checks.__file__).parent
    assert not [path for path in folder.rglob("*.py") if '"cpuinfo"' in path.read_text()]


@pytest.mark.parametrize(("text", "numbers"), [("0", [0]), ("0-3,8", [0, 1, 2, 3, 8]), ("", [])])
def test_lists_of_processors_are_read(text: str, numbers: list[int]):
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("allowed", "ranks", "environment", "outcome"),
    [
        (4, None, {}, "ok"),
        (4, 4, {}, "ok"),
        (3, 4, {}, "warn"),
        (1, 4, {"SLURM_CPUS_ON_NODE": "4"}, "ok"),  # the step that looks is smaller than the one that trains
        (4, 2, {"OMP_NUM_THREADS": "2"}, "ok"),
        (4, 2, {"OMP_NUM_THREADS": "3"}, "warn"),
    ],
)
def test_fewer_processors_than_ranks_is_the_users(
    tmp_path: Path, allowed: int, ranks: int | None, environment: dict[str, str], outcome: str
):
    root = tree(tmp_path, {"sys/devices/system/cpu/online": "0-7"})
    found = only(cpus, context(root, environment, ranks_per_node=ranks), affinity=lambda: allowed)
    assert found.outcome.value == outcome
    assert found.problem in (None, Problem.USER)


def test_a_containers_quota_of_processors_counts(tmp_path: Path):
    root = tree(tmp_path, {**V2, "sys/devices/system/cpu/online": "0-7"})
    found = only(cpus, context(root, ranks_per_node=4), affinity=lambda: 8)
    assert found.outcome is Outcome.WARN
    assert "2.5 processors" in found.sentence
