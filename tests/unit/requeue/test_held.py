"""Why a queued job does not start: every reason with the command that helps and who can run it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.requeue.held import Held, Helper, explain_hold
from slurm_resilience.slurm.client import JobRecord, JobState
from tests.faults.fake_slurm import CONFIGURATION, running

NOW_S = 1000.0


def pending(reason: str, **changed: object) -> JobRecord:
    return replace(running(), state=JobState.PENDING, reason=reason, **changed)  # type: ignore[arg-type]


def explained(record: JobRecord) -> Held:
    held = explain_hold(record, CONFIGURATION, now_s=NOW_S)
    assert held is not None
    return held


@pytest.mark.parametrize(
    ("reason", "held", "command", "who"),
    [
        ("JobHeldUser", True, "scontrol release 7", Helper.OWNER),
        ("job requeued in held state", True, "scontrol release 7", Helper.OWNER),
        ("job_requeued_in_held_state", True, "scontrol release 7", Helper.OWNER),
        ("JobHeldAdmin", True, "scontrol release 7", Helper.OPERATOR),
        ("launch failure limit exceeded requeued held", True, "scontrol release 7", Helper.OPERATOR),
        ("launch_failure_limit_exceeded_requeued_held", True, "scontrol release 7", Helper.OPERATOR),
        ("JobHoldMaxRequeue", True, "scontrol release 7", Helper.OPERATOR),
        ("launch failed requeued held", True, "scontrol release 7", Helper.OWNER),
        ("ReservationDeleted", True, "scontrol update JobId=7 ReservationName=", Helper.OWNER),
        ("DependencyNeverSatisfied", False, "scontrol update JobId=7 Dependency=", Helper.OWNER),
        ("BadConstraints", True, "scontrol update JobId=7 ExcNodeList=", Helper.OWNER),
        ("PartitionTimeLimit", False, "scontrol show partition", Helper.OWNER),
        ("a word of tomorrow", True, "scontrol release 7", Helper.OWNER),
        ("None", True, "scontrol release 7", Helper.OWNER),
        ("Priority", True, "scontrol release 7", Helper.OWNER),
    ],
)
def test_what_never_starts_by_itself_has_a_command_that_helps(
    reason: str, held: bool, command: str, who: Helper
) -> None:
    found = explained(pending(reason, held=held))
    assert (found.for_ever, found.command, found.who) == (True, command, who)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "higher priority"),
        ("Resources", "waits for nodes"),
        ("None", "waits for nodes"),
        ("", "waits for nodes"),
        ("Dependency", "another job"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "UnavailableNodes:n1"),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit"),
        ("AssocGrpGRES", "limit of its QOS or account"),
        ("MaxJobsPerAccount", "limit of its QOS or account"),
        ("Licenses", "licence"),
        ("JobArrayTaskLimit", "array"),
    ],
)
def test_what_waits_for_its_turn_needs_nobody(reason: str, words: str) -> None:
    found = explained(pending(reason))
    assert (found.for_ever, found.command, found.who) == (False, None, Helper.NOBODY)
    assert words in found.sentence


def test_a_requeued_job_waits_for_the_clusters_delay_and_no_longer_than_its_owner_wants() -> None:
    record = pending("BeginTime", restarts=1, start_s=NOW_S + 90)
    found = explain_hold(record, replace(CONFIGURATION, requeue_delay_s=11), now_s=NOW_S, run="runs/a")
    assert found is not None
    assert "for 11 s" in found.sentence
    assert "90 s from now" in found.sentence
    assert found.command == "slurm-resilience resume runs/a --requeue-now"


def test_a_begin_time_that_was_asked_for_is_not_a_requeues_delay() -> None:
    found = explained(pending("BeginTime", start_s=NOW_S + 90))
    assert "requeued" not in found.sentence
    assert found.command == "scontrol update JobId=7 StartTime=now"


def test_the_launch_limit_is_the_clusters_and_five_where_it_has_none() -> None:
    record = pending("JobHoldMaxRequeue", held=True)
    assert "again 5 times" in explained(record).sentence
    found = explain_hold(record, replace(CONFIGURATION, max_batch_requeue=2), now_s=NOW_S)
    assert found is not None
    assert "again 2 times" in found.sentence


def test_an_exit_code_for_which_the_cluster_holds_jobs_is_named() -> None:
    record = pending("JobHeldUser", held=True, exit_code=9)
    found = explain_hold(record, replace(CONFIGURATION, requeue_exit_hold=(9,)), now_s=NOW_S)
    assert found is not None
    assert "left with 9" in found.sentence
    assert "left with" not in explained(record).sentence


@pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.PENDING}, key=str))
def test_what_is_not_pending_is_not_held(state: JobState) -> None:
    assert explain_hold(running(state=state, held=True), CONFIGURATION, now_s=NOW_S) is None


@given(st.text(max_size=40), st.booleans(), st.integers(0, 3))
def test_every_pending_job_has_a_sentence_and_a_held_one_a_command(reason: str, held: bool, restarts: int) -> None:
    found = explain_hold(pending(reason, held=held, restarts=restarts), None, now_s=NOW_S)
    assert found is not None
    assert found.sentence
    assert found.command is not None or not held
