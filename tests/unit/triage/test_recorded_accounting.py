"""What accounting really said of such ends, on two releases, leads to their causes (tests/recorded/*/accounting)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.answers.accounting import read_lives
from slurm_resilience.slurm.client import JobRef, JobState, PastLife
from slurm_resilience.triage.diagnosis import diagnose
from tests.unit.triage.ends import SILENT, asked, evidence, record

RECORDED = Path(__file__).parents[2] / "recorded"
OWNER = 65534
COLUMNS = ("State", "ExitCode", "Start", "End", "NodeList", "Reason")


def lives(release: str, situation: str) -> tuple[PastLife, ...]:
    """The recorded answer has more columns than the client asks for."""
    folder = RECORDED / release / "accounting"
    names = (folder / "command").read_text().rpartition("--format=")[2].strip().split(",")
    rows = [
        dict(zip(names, line.split("|"), strict=True))
        for line in (folder / f"{situation}.sacct").read_text().splitlines()
    ]
    allocations = [row for row in rows if "." not in row["JobID"]]
    answer = "\n".join("|".join(["7", *(row[name] for name in COLUMNS)]) for row in allocations)
    return read_lives(JobRef("7"), answer)


@pytest.mark.parametrize("release", ["22.05", "24.11"])
@pytest.mark.parametrize(
    ("situation", "cause"),
    [
        ("cancelled-by-user", Cause.CANCELLED),
        ("cancelled-by-root", Cause.CANCELLED_BY_ADMIN),
        ("never-started", Cause.CANCELLED),
        ("never-started-cancelled-by-root", Cause.CANCELLED_BY_ADMIN),
        ("dependency-never-and-waits", Cause.CANCELLED_BY_ADMIN),
        ("time-limit", Cause.TIME_LIMIT),
        ("node-failure", Cause.NODE_FAILURE),
        ("node-failure-requeued", Cause.NODE_FAILURE),
        ("preempted-requeued", Cause.PREEMPTED),
        ("preempted-no-requeue", Cause.PREEMPTED),
        ("preempted-by-cancel", Cause.PREEMPTED),
    ],
)
def test_accounting_alone_tells_the_cause(release: str, situation: str, cause: Cause) -> None:
    told = evidence(record=None, lives=lives(release, situation), agents=SILENT, command_code=None, user_id=OWNER)
    assert diagnose(told).cause is cause


@pytest.mark.parametrize("release", ["22.05", "24.11"])
@pytest.mark.parametrize("moment", ["preempted-requeued.pending", "preempted-requeued"])
def test_a_life_is_found_whether_or_not_the_next_one_is_listed_yet(release: str, moment: str) -> None:
    told = evidence(record=record(restarts=1), lives=lives(release, moment), agents=SILENT)
    assert diagnose(told).cause is Cause.PREEMPTED


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_a_life_that_a_person_ended_by_a_requeue_is_no_other_cause(release: str) -> None:
    for restarts_at_start in (0, 1):
        told = evidence(
            record=record(restarts=2),
            restarts_at_start=restarts_at_start,
            lives=lives(release, "requeued-by-hand-twice"),
            agents=asked("TERMINATION"),
        )
        assert diagnose(told).cause is Cause.REQUEUED_BY_HAND


def test_a_polite_exit_in_the_grace_is_completed_on_the_old_release_and_preempted_on_the_new() -> None:
    (old,) = lives("22.05", "preempted-exits-0-in-grace")
    assert old.state is JobState.COMPLETED
    new, again = lives("24.11", "preempted-exits-0-in-grace")
    assert (new.state, again.state) == (JobState.PREEMPTED, JobState.COMPLETED)
    left = evidence(
        agents=asked("TERMINATION"), command_code=None, supervisor_died=True, record=record(state=JobState.COMPLETED)
    )
    for release, told in (((22, 5), (old,)), ((24, 11), (new,))):
        assert diagnose(replace(left, release=release, lives=told)).cause is Cause.PREEMPTED


def test_a_deadline_is_its_users_word_where_slurm_keeps_it() -> None:
    """22.05.8 left the held job in the queue for two minutes, until somebody cancelled it."""
    told = evidence(record=None, lives=lives("24.11", "deadline"), agents=(), command_code=None, user_id=OWNER)
    assert diagnose(told).cause is Cause.CANCELLED
