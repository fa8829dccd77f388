"""Memory and swap, as /proc and the cgroup show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.preflight.checks.node.job_limits import cpu_quota, memory_in_use, memory_limit, promised_memory
from slurm_resilience.preflight.checks.node.memory import memory, swap
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import (
    GIB,
    V1,
    V2,
    context,
    only,
    tree,
)


def meminfo(total_gib: float, available_gib: float) -> dict[str, str]:
    lines = (
        f"MemTotal: {int(total_gib * (1 << 20))} kB\nMemFree: 1 kB\nMemAvailable: {int(available_gib * (1 << 20))} kB\n"
    )
    return {"proc/meminfo": f"{lines}SwapTotal: 1048576 kB\nSwapFree: 524288 kB\n"}


@pytest.mark.parametrize(
    ("available_gib", "environment", "outcome"),
    [
        (90, {}, "ok"),
        (10, {}, "ok"),
        (9, {}, "warn"),
        (2, {}, "fail"),
        (90, {"SLURM_MEM_PER_NODE": str(100 << 10)}, "ok"),  # the kernel keeps some for itself
        (89, {"SLURM_MEM_PER_NODE": str(100 << 10)}, "warn"),
        (50, {"SLURM_MEM_PER_NODE": str(40 << 10)}, "ok"),
        (35, {"SLURM_MEM_PER_NODE": str(40 << 10)}, "warn"),
        (2, {"SLURM_MEM_PER_NODE": str(1 << 10)}, "ok"),  # on a node that jobs share, others have the rest
        (2, {"SLURM_MEM_PER_NODE": str(40 << 10)}, "fail"),
        (50, {"SLURM_MEM_PER_NODE": "0"}, "ok"),  # all of the node: no number
        (30, {"SLURM_MEM_PER_CPU": "4096", "SLURM_CPUS_ON_NODE": "10"}, "warn"),
    ],
)
def test_memory_is_held_against_what_there_is_and_what_was_promised(
    tmp_path: Path, available_gib: float, environment: dict[str, str], outcome: str
):
    found = only(memory, context(tree(tmp_path, meminfo(100, available_gib)), environment))
    assert found.outcome.value == outcome
    assert found.measured["total_bytes"] == 100 * GIB


@pytest.mark.parametrize("cgroup", [V1, V2])
def test_both_versions_of_cgroups_tell_the_jobs_limits(tmp_path: Path, cgroup: dict[str, str]):
    root = tree(tmp_path, cgroup)
    assert memory_limit(root) == 40 * GIB
    assert memory_in_use(root) == 8 * GIB
    assert cpu_quota(root) == 2.5


def test_without_cgroups_there_is_no_limit(tmp_path: Path):
    assert (memory_limit(tmp_path), memory_in_use(tmp_path), cpu_quota(tmp_path)) == (None, 0, None)
    assert promised_memory({}) is None


def test_what_the_job_itself_uses_is_not_missed(tmp_path: Path):
    root = tree(tmp_path, {**V2, **meminfo(100, 30)})
    assert only(memory, context(root)).outcome is Outcome.OK  # 30 and its own 8 of 40
    tree(root, meminfo(100, 27))
    assert only(memory, context(root)).outcome is Outcome.WARN


def test_a_snapshot_that_finds_no_memory_is_the_users(tmp_path: Path):
    root = tree(tmp_path, meminfo(100, 90))
    two = {"SLURM_NNODES": "2"}
    assert only(memory, context(root, two, checkpoint_bytes=180 * GIB)).outcome is Outcome.OK
    found = only(memory, context(root, two, checkpoint_bytes=200 * GIB))
    assert (found.outcome, found.problem) == (Outcome.WARN, Problem.USER)


def test_memory_without_proc_is_skipped(tmp_path: Path):
    assert only(memory, context(tmp_path)).outcome is Outcome.SKIPPED


@pytest.mark.parametrize(("pages", "outcome"), [(0, "ok"), (255, "ok"), (256, "warn")])
def test_swap_in_use_is_no_problem_and_swapping_now_is(tmp_path: Path, pages: int, outcome: str):
    root = tree(tmp_path, {**meminfo(100, 90), "proc/vmstat": "pgfault 5\npswpin 1000\npswpout 2000\n"})

    def a_second_passes(_seconds: float) -> None:
        tree(root, {"proc/vmstat": f"pswpin {1000 + pages}\npswpout 2000\n"})

    found = only(swap, context(root), sleep=a_second_passes, page_bytes=4096)

    assert found.outcome.value == outcome
    assert found.measured["used_bytes"] == GIB // 2


def test_a_page_has_the_size_that_this_kernel_gives_it(tmp_path: Path):
    root = tree(tmp_path, {**meminfo(100, 90), "proc/vmstat": "pswpin 0\npswpout 0\n"})

    def a_second_passes(_seconds: float) -> None:
        tree(root, {"proc/vmstat": "pswpin 16\npswpout 0\n"})

    assert only(swap, context(root), sleep=a_second_passes, page_bytes=64 << 10).outcome is Outcome.WARN


def test_swap_without_proc_is_skipped(tmp_path: Path):
    assert only(swap, context(tmp_path), sleep=lambda _: None).outcome is Outcome.SKIPPED
