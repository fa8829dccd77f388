"""Why an attempt ended: which witness is believed."""

from dataclasses import replace

import pytest

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from slurm_resilience.triage.diagnosis import Evidence, diagnose

RECORD = JobRecord(
    job=JobRef("7"),
    state=JobState.RUNNING,
    completing=False,
    held=False,
    reason="None",
    restarts=0,
    requeue=True,
    batch=True,
    start_s=0.0,
    end_s=10_000.0,
    preempted_s=None,
    partition="low",
    nodes="n[1-2]",
    batch_host="n1",
    exit_code=0,
    exit_signal=0,
)


def agent(node_id: int = 0, outcome: Outcome = Outcome.FINISHED, **changed: object) -> AgentRecord:
    record = AgentRecord(node_id, f"n{node_id + 1}", 1, 0.0, outcome)
    return replace(record, **changed)  # type: ignore[arg-type]


def asked(reason: str, because: str = "asked") -> tuple[AgentRecord, ...]:
    return tuple(agent(n, Outcome.STOPPED, stop_reason=reason, stop_because=because, command_code=0) for n in range(2))


PLAIN = Evidence(
    training_finished=False,
    agents=(agent(0), agent(1)),
    agents_expected=2,
    unheard=(),
    command_code=0,
    supervisor_signals=(),
    supervisor_died=False,
    record=RECORD,
    in_grace=False,
    slurm=True,
    restarts_at_start=0,
    end_s=10_000.0,
    now_s=100.0,
)
SILENT = (agent(0, Outcome.RUNNING), agent(1, Outcome.RUNNING))
FAILED = (agent(0, Outcome.FAILED, command_code=3, why="the command left with 3", ended_s=5.0), agent(1))


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({}, Cause.FINISHED),
        ({"training_finished": True, "agents": SILENT, "command_code": 137}, Cause.FINISHED),
        ({"agents": (agent(0),)}, Cause.UNKNOWN),
        ({"agents": ()}, Cause.UNKNOWN),
        ({"agents": (), "command_code": 1}, Cause.CRASHED),
        ({"agents": FAILED, "command_code": 3}, Cause.CRASHED),
        ({"agents": SILENT, "command_code": 137}, Cause.CRASHED),
        ({"agents": asked("WARNING"), "command_code": 75}, Cause.WARNED),
        ({"agents": asked("WARNING"), "command_code": 75, "now_s": 9_950.0}, Cause.TIME_LIMIT),
        ({"agents": asked("TERMINATION"), "command_code": 75}, Cause.PREEMPTED),
        ({"agents": asked("TERMINATION"), "command_code": 75, "now_s": 9_990.0}, Cause.TIME_LIMIT),
        ({"agents": asked("TIME_LIMIT"), "command_code": 75}, Cause.TIME_LIMIT),
        ({"agents": asked("OPERATOR"), "command_code": 75}, Cause.OPERATOR_STOP),
        ({"agents": asked("FENCED"), "command_code": 75}, Cause.FENCED),
        ({"agents": SILENT, "command_code": None, "record": None, "supervisor_died": True}, Cause.CRASHED),
        ({"agents": (), "command_code": None, "record": None, "supervisor_died": True}, Cause.SUPERVISOR_DIED),
        ({"agents": SILENT, "command_code": None, "record": None, "restarted_by_slurm": True}, Cause.NODE_FAILURE),
        ({"command_code": None, "supervisor_died": True}, Cause.FINISHED),
        ({"command_code": None, "supervisor_died": True, "agents_expected": 3}, Cause.SUPERVISOR_DIED),
        ({"command_code": None, "supervisor_died": True, "agents_expected": 0}, Cause.SUPERVISOR_DIED),
        ({"agents": SILENT, "command_code": 137, "supervisor_signals": ("SIGINT", "SIGINT")}, Cause.OPERATOR_STOP),
    ],
)
def test_the_cause_follows_from_who_said_what(changed: dict[str, object], cause: Cause) -> None:
    assert diagnose(replace(PLAIN, **changed)).cause is cause  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"state": JobState.CANCELLED, "completing": True}, Cause.CANCELLED),
        ({"state": JobState.TIMEOUT, "completing": True}, Cause.TIME_LIMIT),
        ({"state": JobState.NODE_FAIL}, Cause.NODE_FAILURE),
        ({"preempted_s": 90.0}, Cause.PREEMPTED),
        ({"restarts": 1}, Cause.REQUEUED_BY_HAND),
        ({"restarts": 1, "preempted_s": 90.0}, Cause.PREEMPTED),
        ({"state": JobState.OUT_OF_MEMORY}, Cause.OUT_OF_MEMORY),
        ({"state": JobState.UNKNOWN, "completing": True, "reason": "TimeLimit"}, Cause.TIME_LIMIT),
        ({"state": JobState.UNKNOWN, "completing": True}, Cause.CANCELLED),
        ({"state": JobState.UNKNOWN, "completing": True, "preempted_s": 90.0}, Cause.CANCELLED),
        ({"state": JobState.UNKNOWN, "completing": True, "restarts": 1}, Cause.REQUEUED_BY_HAND),
    ],
)
def test_slurms_record_outranks_what_the_agents_heard(changed: dict[str, object], cause: Cause) -> None:
    record = replace(RECORD, **changed)  # type: ignore[arg-type]
    evidence = replace(PLAIN, record=record, agents=asked("TERMINATION"), command_code=75)
    assert diagnose(evidence).cause is cause


def test_a_preemption_seen_during_the_grace_is_remembered_when_slurm_has_forgotten_it() -> None:
    record = replace(RECORD, state=JobState.UNKNOWN, completing=True, restarts=1)
    assert diagnose(replace(PLAIN, record=record, in_grace=True, agents=asked("TERMINATION"))).cause is Cause.PREEMPTED


def test_a_job_that_ends_because_its_supervisor_was_killed_was_not_cancelled() -> None:
    record = replace(RECORD, state=JobState.UNKNOWN, completing=True)
    evidence = replace(PLAIN, record=record, supervisor_died=True, command_code=None, agents=asked("TERMINATION"))
    assert diagnose(evidence).cause is Cause.SUPERVISOR_DIED


def test_a_persons_stop_outranks_a_preemption_that_came_on_top_of_it() -> None:
    record = replace(RECORD, preempted_s=90.0)
    assert diagnose(replace(PLAIN, record=record, agents=asked("OPERATOR"))).cause is Cause.OPERATOR_STOP


def test_a_cancellation_outranks_everything_but_the_end_of_the_training() -> None:
    record = replace(RECORD, state=JobState.CANCELLED)
    assert diagnose(replace(PLAIN, record=record, agents=asked("OPERATOR"))).cause is Cause.CANCELLED
    assert diagnose(replace(PLAIN, record=record, training_finished=True)).cause is Cause.FINISHED


def test_no_answer_from_slurm_is_among_the_evidence() -> None:
    assert "Slurm: no answer" in diagnose(replace(PLAIN, record=None)).evidence


def test_the_first_ranks_exception_is_the_reason_of_a_crash() -> None:
    errors = ("rank-00001: ValueError: bad", "rank-00000: RuntimeError: connection closed by peer")
    diagnosis = diagnose(replace(PLAIN, agents=FAILED, command_code=1, rank_errors=errors))
    assert diagnosis.cause is Cause.CRASHED
    assert "ValueError: bad" in diagnosis.because
