"""What Slurm proves of an owner that can't be seen from here: gone only where nothing else can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_resilience.manifest.lease import Owner
from slurm_resilience.process_identity import Liveness
from slurm_resilience.slurm.client import JobRecord, JobState, PastLife
from slurm_resilience.supervisor.ownership import liveness_by_slurm
from tests.faults.fake_slurm import FakeSlurm, running

OWNER = Owner(3, "n1", "boot", 4, 5, 6, "7", 1, "fake", 0.0)
OVER = PastLife(JobState.TIMEOUT, None, 0, 0, 10.0, 20.0, "n1", "")
RUNS = replace(OVER, state=JobState.RUNNING, end_s=None)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (running(restarts=1), Liveness.ALIVE),
        (running(restarts=1, state=JobState.SUSPENDED), Liveness.ALIVE),
        (running(restarts=2), Liveness.GONE),
        (running(restarts=2, state=JobState.PENDING), Liveness.GONE),
        (running(restarts=2, state=JobState.UNKNOWN, completing=True), Liveness.UNKNOWN),
        (running(restarts=1, state=JobState.FAILED), Liveness.GONE),
        (running(restarts=1, state=JobState.FAILED, completing=True), Liveness.UNKNOWN),
        (None, Liveness.UNKNOWN),
    ],
)
def test_the_record_proves_it_or_not(record: JobRecord | None, expected: Liveness) -> None:
    slurm = FakeSlurm({} if record is None else {"7": record})
    assert liveness_by_slurm(slurm, OWNER, "fake", False) is expected


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        ((OVER, OVER), Liveness.GONE),
        ((OVER, RUNS), Liveness.UNKNOWN),
        ((OVER,), Liveness.UNKNOWN),  # ours isn't listed yet
        ((OVER, OVER, RUNS), Liveness.UNKNOWN),
        ((), Liveness.UNKNOWN),
    ],
)
def test_of_a_job_that_slurm_has_forgotten_accounting_proves_it_or_not(
    lives: tuple[PastLife, ...], expected: Liveness
) -> None:
    assert liveness_by_slurm(FakeSlurm(accounting={"7": lives}), OWNER, "fake", False) is expected


def test_a_job_that_slurm_has_waited_for_and_forgotten_is_gone() -> None:
    assert liveness_by_slurm(FakeSlurm(), OWNER, "fake", False, followed="7") is Liveness.GONE
    assert liveness_by_slurm(FakeSlurm(), OWNER, "fake", False, followed="6") is Liveness.UNKNOWN
    assert liveness_by_slurm(FakeSlurm(), OWNER, "another", False, followed="7") is Liveness.UNKNOWN
    alive = FakeSlurm({"7": running(restarts=1)})
    assert liveness_by_slurm(alive, OWNER, "fake", False, followed="7") is Liveness.ALIVE


def test_no_answer_proves_nothing_and_a_persons_word_stands_for_what_nobody_can_prove() -> None:
    silent = FakeSlurm(silent_for=10)
    assert liveness_by_slurm(silent, OWNER, "fake", False) is Liveness.UNKNOWN
    assert liveness_by_slurm(silent, OWNER, "fake", False, followed="7") is Liveness.UNKNOWN
    assert liveness_by_slurm(silent, OWNER, "fake", True) is Liveness.GONE
    assert liveness_by_slurm(FakeSlurm({"7": running(restarts=1)}), OWNER, "fake", True) is Liveness.ALIVE
