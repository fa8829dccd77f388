"""GPUs, with a driver that is told what to say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from slurm_resilience.preflight.checks.gpu.device import DriverMissing, Gpu, LibraryMissing, Link, User
from slurm_resilience.preflight.checks.gpu.expected import chosen, expected
from slurm_resilience.preflight.checks.gpu.health import gpu
from slurm_resilience.preflight.checks.gpu.tenants import gpu_processes
from slurm_resilience.preflight.checks.gpu.verdict import verdicts
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import context, findings, only, outcomes, tree

GOOD = Gpu(
    0,
    uuid="GPU-aaaa",
    model="NVIDIA H100 80GB HBM3",
    bus="00000000:3B:00.0",
    recovery_action=0,
    uncorrectable_errors=0,
    ecc=True,
    ecc_after_reset=True,
    remap_pending=False,
    remap_failed=False,
    remapped_rows=0,
    links=tuple(Link(number, True, 0) for number in range(18)),
    slowdown=1,
    temperature_c=31,
    slowdown_at_c=87,
    persistent=True,
    total_bytes=80 << 30,
    used_bytes=1 << 20,
    users=(),
    partitioned=False,
)


def eight() -> list[Gpu]:
    return [replace(GOOD, index=index, uuid=f"GPU-{index}") for index in range(8)]


class FakeDriver:
    def __init__(self, gpus: list[Gpu] | None = None, missing: DriverMissing | None = None) -> None:
        self._gpus, self._missing = gpus or [], missing
        self.asked = 0

    def __call__(self) -> FakeDriver:
        return self

    def __enter__(self) -> FakeDriver:  # noqa: PYI034  # Self is new in 3.11
        if self._missing is not None:
            raise self._missing
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def version(self) -> str | None:
        return "570.86.15"

    def gpus(self) -> tuple[Gpu, ...]:
        self.asked += 1
        return tuple(self._gpus)


def test_a_healthy_card_has_no_verdict():
    assert verdicts(eight()) == []


def test_a_card_that_tells_nothing_but_its_name_has_no_verdict():
    assert verdicts([Gpu(0, model="NVIDIA T400")]) == []


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({"lost": "it has fallen off the bus"}, "fail", "fallen off the bus"),
        ({"recovery_action": 1}, "fail", "a reset of the GPU"),
        ({"recovery_action": 2}, "fail", "a start of the node"),
        ({"recovery_action": 3}, "fail", "drained"),
        ({"recovery_action": 4}, "fail", "drained and a reset"),
        ({"recovery_action": 99}, "warn", "action 99"),
        ({"uncorrectable_errors": 1}, "fail", "1 uncorrectable memory error since"),
        ({"remap_pending": True}, "fail", "waits to be replaced"),
        ({"remap_failed": True}, "fail", "could not replace"),
        ({"remapped_rows": 511}, None, ""),
        ({"remapped_rows": 512}, "fail", "512 rows"),
        ({"retirement_pending": True}, "fail", "wait to be retired"),
        ({"retired_pages": 15}, None, ""),
        ({"retired_pages": 16}, "warn", "16 pages"),
        ({"retired_pages": 16, "all_retired_pages": 63}, "fail", "63 pages"),
        ({"ecc_after_reset": False}, "warn", "on, and off after its next reset"),
        ({"ecc": False, "ecc_after_reset": False}, None, ""),
        ({"slowdown": 0x8}, "warn", "hardware slowdown"),
        ({"slowdown": 0x40}, "warn", "too hot"),
        ({"slowdown": 0x80}, "warn", "brake"),
        ({"slowdown": 0x4}, None, ""),  # its power limit: as it is meant to be
        ({"temperature_c": 81}, None, ""),
        ({"temperature_c": 82}, "warn", "82 °C"),
        ({"persistent": False}, None, ""),
    ],
)
def test_each_threshold_of_the_field(changes: dict[str, Any], outcome: str | None, words: str):
    found = verdicts([replace(GOOD, **changes)])

    assert outcomes(found) == ([] if outcome is None else [outcome])
    assert all(words in each.sentence and each.problem is Problem.NODE for each in found)


def test_a_link_that_is_down_on_one_card_fails_and_is_named():
    gpus = eight()
    gpus[3] = replace(gpus[3], links=tuple(Link(number, number != 5) for number in range(18)))

    (found,) = verdicts(gpus)

    assert found.outcome is Outcome.FAIL
    assert found.sentence.startswith("GPU 3")
    assert found.sentence.endswith("down: 5")


def test_links_that_are_down_everywhere_are_only_a_warning_for_bridges_may_be_missing():
    half = tuple(Link(number, number < 6) for number in range(12))

    (found,) = verdicts([replace(each, links=half) for each in eight()])

    assert found.outcome is Outcome.WARN
    assert "6 of 12" in found.sentence


def test_cards_without_any_bridge_are_fine():
    assert verdicts([replace(each, links=tuple(Link(n, False) for n in range(4))) for each in eight()]) == []


def test_link_errors_alone_are_told_and_no_problem(tmp_path: Path):
    noisy = [replace(each, links=(Link(0, True, 7),)) for each in eight()]

    found = only(gpu, context(tmp_path, gpus=8), opener=FakeDriver(noisy))

    assert found.outcome is Outcome.OK
    assert "56 NVLink errors" in found.sentence


def test_all_cards_are_told_with_what_others_compare(tmp_path: Path):
    found = only(gpu, context(tmp_path, gpus=8), opener=FakeDriver(eight()))

    assert found.outcome is Outcome.OK
    assert found.sentence == "8 × NVIDIA H100 80GB HBM3"
    assert found.measured["gpus"] == 8
    assert found.measured["driver"] == "570.86.15"
    assert found.measured["models"] == ["NVIDIA H100 80GB HBM3"]


def test_facts_are_there_when_something_is_wrong_too(tmp_path: Path):
    gpus = eight()
    gpus[1] = replace(gpus[1], recovery_action=1)

    (found,) = findings(gpu, context(tmp_path, gpus=8), opener=FakeDriver(gpus))

    assert found.outcome is Outcome.FAIL
    assert found.measured["gpus"] == 8


@pytest.mark.parametrize(
    ("given", "environment", "count"),
    [
        (None, {}, None),
        (4, {"CUDA_VISIBLE_DEVICES": "0"}, 4),
        (None, {"CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        (None, {"CUDA_VISIBLE_DEVICES": ""}, 0),
        (None, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 0),
        (None, {"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        (None, {"SLURM_GPUS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0"}, 8),
        (None, {"SLURM_GPUS_ON_NODE": "a100:8"}, None),
    ],
)
def test_how_many_cards_are_expected(tmp_path: Path, given: int | None, environment: dict[str, str], count: int | None):
    assert expected(context(tmp_path, environment, gpus=given)) == count


@pytest.mark.parametrize(
    ("named", "indices"),
    [(None, list(range(8))), ("", []), ("2,3", [2, 3]), ("GPU-5", [5]), ("GPU-5,GPU-6", [5, 6]), ("77", [])],
)
def test_which_cards_are_the_jobs(named: str | None, indices: list[int]):
    environment = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert [each.index for each in chosen(eight(), context(Path("/no"), environment))] == indices


@pytest.mark.parametrize(
    ("environment", "shown", "indices"),
    [
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_GPUS": "6,7"}, 8, [6, 7]),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_STEP_GPUS": "5", "SLURM_JOB_GPUS": "6,7"}, 8, [5]),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_GPUS": "6,7"}, 2, [0, 1]),  # a cgroup hides the others: they count anew
        ({"SLURM_GPUS_ON_NODE": "2"}, 8, list(range(8))),
    ],
)
def test_slurms_numbers_are_used_where_others_cards_are_to_be_seen(
    environment: dict[str, str], shown: int, indices: list[int]
):
    assert [each.index for each in chosen(eight()[:shown], context(Path("/no"), environment))] == indices


@pytest.mark.parametrize(
    ("environment", "health", "tenants"),
    [
        ({"SLURM_JOB_ID": "13"}, "warn", "skipped"),  # a job without GPUs sees those of others
        ({"SLURM_JOB_ID": "13", "SLURM_GPUS_ON_NODE": "0"}, "skipped", "skipped"),
        ({"SLURM_JOB_ID": "13", "SLURM_GPUS_ON_NODE": "2"}, "warn", "skipped"),
        ({"SLURM_JOB_ID": "13", "SLURM_GPUS_ON_NODE": "8"}, "fail", "fail"),
        ({}, "fail", "warn"),
    ],
)
def test_a_card_that_may_be_another_jobs_is_no_reason_to_leave_the_node_out(
    tmp_path: Path, environment: dict[str, str], health: str, tenants: str
):
    sick = [replace(each, uncorrectable_errors=1, users=(User(77),)) for each in eight()]
    asked = context(tmp_path, environment)
    assert {*outcomes(findings(gpu, asked, opener=FakeDriver(sick)))} == {health}
    found = findings(gpu_processes, asked, opener=FakeDriver(sick), sleep=lambda _: None)
    assert {*outcomes(found)} == {tenants}


def test_a_card_that_is_not_the_jobs_is_not_looked_at(tmp_path: Path):
    gpus = eight()
    gpus[7] = replace(gpus[7], uncorrectable_errors=3)

    found = only(gpu, context(tmp_path, {"CUDA_VISIBLE_DEVICES": "0,1"}), opener=FakeDriver(gpus))

    assert found.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("gpus", "environment", "outcome", "problem"),
    [
        (7, {"SLURM_GPUS_ON_NODE": "8"}, "fail", Problem.NODE),
        (8, {"SLURM_GPUS_ON_NODE": "8"}, "ok", None),
        (8, {"SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, "fail", Problem.USER),
        (8, {"SLURM_GPUS_ON_NODE": "8", "CUDA_VISIBLE_DEVICES": "0,1"}, "ok", None),
        (1, {"CUDA_VISIBLE_DEVICES": "0,1"}, "fail", Problem.NODE),
        (3, {}, "ok", None),
    ],
)
def test_a_missing_card_is_the_nodes_problem_and_a_wrong_name_the_users(
    tmp_path: Path, gpus: int, environment: dict[str, str], outcome: str, problem: Problem | None
):
    found = only(gpu, context(tmp_path, environment), opener=FakeDriver(eight()[:gpus]))

    assert (found.outcome.value, found.problem) == (outcome, problem)


def test_a_slice_of_a_card_counts_for_what_slurm_gave(tmp_path: Path):
    sliced = [replace(GOOD, partitioned=True)]
    environment = {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2", "SLURM_GPUS_ON_NODE": "2"}

    assert only(gpu, context(tmp_path, environment), opener=FakeDriver(sliced)).outcome is Outcome.OK


NO_DRIVER = DriverMissing("NVIDIA's driver is not loaded")
NO_LIBRARY = LibraryMissing("the Python package nvidia-ml-py is not installed")
CARDS = {"proc/driver/nvidia/gpus/0000:3b:00.0/information": "", "dev/nvidia0": "", "dev/nvidiactl": ""}


@pytest.mark.parametrize(
    ("missing", "gpus", "files", "outcome"),
    [
        (NO_DRIVER, None, {}, "skipped"),  # gpud said unhealthy where a thing simply wasn't there
        (NO_DRIVER, 0, {}, "skipped"),
        (NO_DRIVER, 1, {}, "fail"),
        (NO_LIBRARY, None, {}, "skipped"),
        (NO_LIBRARY, None, CARDS, "broken"),  # they are there, and nobody has looked: no good news
        (NO_LIBRARY, 1, CARDS, "broken"),
        (NO_LIBRARY, 2, CARDS, "fail"),
        (NO_LIBRARY, 2, {}, "broken"),
        (NO_DRIVER, 2, {"sys/class/kfd/kfd/dev": ""}, "skipped"),
    ],
)
def test_without_a_driver_only_expected_cards_are_missed(
    tmp_path: Path, missing: DriverMissing, gpus: int | None, files: dict[str, str], outcome: str
):
    root = tree(tmp_path, files)
    assert only(gpu, context(root, gpus=gpus), opener=FakeDriver(missing=missing)).outcome.value == outcome


def stat_line(pid: int, name: str, state: str = "S", parent: int = 1) -> str:
    return f"{pid} ({name}) {state} {parent} " + " ".join(["0"] * 15) + " 4 " + " ".join(["0"] * 30)


GIVEN = {"SLURM_JOB_ID": "13", "SLURM_GPUS_ON_NODE": "1"}


def busy(*pids: int) -> FakeDriver:
    return FakeDriver([replace(GOOD, users=tuple(User(pid, 5 << 30) for pid in pids), used_bytes=5 << 30)])


def test_an_empty_card_has_no_tenants(tmp_path: Path):
    driver = FakeDriver([GOOD])

    assert only(gpu_processes, context(tmp_path), opener=driver, sleep=lambda _: None).outcome is Outcome.OK
    assert driver.asked == 1


def test_a_process_of_an_own_earlier_job_is_the_users_problem(tmp_path: Path):
    root = tree(tmp_path, {"proc/77/stat": stat_line(77, "python"), "proc/77/environ": "A=1\0SLURM_JOB_ID=12\0"})

    found = only(gpu_processes, context(root, GIVEN), opener=busy(77), sleep=lambda _: None)

    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)
    assert "process 77 (python) of job 12" in found.sentence
    assert "scancel 12" in (found.remedy or "")


def test_a_process_of_this_job_is_no_stranger(tmp_path: Path):
    cgroup = "0::/system.slice/slurmstepd.scope/job_13/step_0/user/task_0\n"
    root = tree(tmp_path, {"proc/77/stat": stat_line(77, "python"), "proc/77/cgroup": cgroup})

    found = only(gpu_processes, context(root, GIVEN), opener=busy(77), sleep=lambda _: None)

    assert found.outcome is Outcome.OK


def test_a_process_that_can_not_be_seen_is_the_nodes_problem(tmp_path: Path):
    found = only(gpu_processes, context(tmp_path, GIVEN), opener=busy(77), sleep=lambda _: None)

    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.NODE)


def test_without_slurm_nobody_gave_the_card_to_anyone_and_it_is_a_warning(tmp_path: Path):
    root = tree(tmp_path, {"proc/77/stat": stat_line(77, "jupyter")})

    found = only(gpu_processes, context(root), opener=busy(77), sleep=lambda _: None)

    assert (found.outcome, found.problem) == (Outcome.WARN, Problem.USER)
    assert os.getuid() == (root / "proc/77").stat().st_uid


def test_a_card_that_is_shared_on_purpose_has_tenants_rightly(tmp_path: Path):
    environment = {"SLURM_JOB_ID": "13", "SLURM_SHARDS_ON_NODE": "1"}
    found = only(gpu_processes, context(tmp_path, environment), opener=busy(77), sleep=lambda _: None)
    assert found.outcome is Outcome.SKIPPED


@pytest.mark.parametrize(("used", "outcome"), [(15 << 20, "ok"), (16 << 20, "warn")])
def test_memory_that_no_process_has_is_asked_for_again_before_it_is_a_warning(tmp_path: Path, used: int, outcome: str):
    driver = FakeDriver([replace(GOOD, used_bytes=used)])

    found = only(gpu_processes, context(tmp_path), opener=driver, sleep=lambda _: None)

    assert found.outcome.value == outcome
    assert driver.asked == (1 if outcome == "ok" else 3)


def test_without_cards_there_is_nobody_to_ask(tmp_path: Path):
    assert only(gpu_processes, context(tmp_path), opener=FakeDriver(missing=NO_DRIVER)).outcome is Outcome.SKIPPED
    assert only(gpu_processes, context(tmp_path), opener=FakeDriver()).outcome is Outcome.SKIPPED


def test_who_is_on_another_slice_of_a_partitioned_card_is_no_stranger_on_ours(tmp_path: Path):
    card = replace(GOOD, partitioned=True, users=(User(77, 5 << 30),), used_bytes=5 << 30)
    driver = FakeDriver([card])
    assert only(gpu_processes, context(tmp_path, GIVEN), opener=driver, sleep=lambda _: None).outcome is Outcome.OK
