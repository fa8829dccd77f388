"""Why an attempt ended: which witness is believed."""

from dataclasses import replace

import pytest

from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.diagnosis import diagnose
from tests.unit.triage.ends import FAILED, PLAIN, RECORD, SILENT, agent, asked, evidence, note, record


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
        ({"fenced": True, "agents": SILENT, "command_code": 137}, Cause.FENCED),
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
    assert diagnose(evidence(**changed)).cause is cause


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
        ({"state": JobState.UNKNOWN, "completing": True, "reason": "NodeDown"}, Cause.NODE_FAILURE),
        ({"state": JobState.UNKNOWN, "completing": True, "reason": "TimeLimit"}, Cause.TIME_LIMIT),
        ({"state": JobState.UNKNOWN, "completing": True, "reason": "TimeLimit", "restarts": 1}, Cause.TIME_LIMIT),
        ({"state": JobState.UNKNOWN, "completing": True}, Cause.CANCELLED),
        ({"state": JobState.UNKNOWN, "completing": True, "preempted_s": 90.0}, Cause.CANCELLED),
        ({"state": JobState.UNKNOWN, "completing": True, "restarts": 1}, Cause.REQUEUED_BY_HAND),
    ],
)
def test_slurms_record_outranks_what_the_agents_heard(changed: dict[str, object], cause: Cause) -> None:
    told = evidence(record=record(**changed), agents=asked("TERMINATION"), command_code=75)
    assert diagnose(told).cause is cause


def test_a_preemption_seen_during_the_grace_is_remembered_when_slurm_has_forgotten_it() -> None:
    queued = record(state=JobState.UNKNOWN, completing=True, restarts=1)
    assert diagnose(replace(PLAIN, record=queued, in_grace=True, agents=asked("TERMINATION"))).cause is Cause.PREEMPTED


def test_a_warning_that_was_a_preemptions_is_a_preemption_though_slurm_is_silent_afterwards() -> None:
    assert diagnose(evidence(record=None, in_grace=True, agents=asked("WARNING"))).cause is Cause.PREEMPTED


def test_a_job_that_ends_because_its_supervisor_was_killed_was_not_cancelled() -> None:
    ending = record(state=JobState.UNKNOWN, completing=True)
    told = replace(PLAIN, record=ending, supervisor_died=True, command_code=None, agents=asked("TERMINATION"))
    assert diagnose(told).cause is Cause.SUPERVISOR_DIED


def test_a_persons_stop_outranks_a_preemption_that_came_on_top_of_it() -> None:
    diagnosis = diagnose(replace(PLAIN, record=record(preempted_s=90.0), agents=asked("OPERATOR", "stop it")))
    assert diagnosis.cause is Cause.OPERATOR_STOP
    assert diagnosis.outranked == ("Slurm: job 7 is being preempted (preempted); a person's word was believed",)


def test_a_cancellation_outranks_everything_but_the_end_of_the_training() -> None:
    cancelled = record(state=JobState.CANCELLED)
    assert diagnose(replace(PLAIN, record=cancelled, agents=asked("OPERATOR"))).cause is Cause.CANCELLED
    assert diagnose(replace(PLAIN, record=cancelled, training_finished=True)).cause is Cause.FINISHED


def test_no_answer_from_slurm_is_among_the_evidence() -> None:
    assert "Slurm: no answer" in diagnose(replace(PLAIN, record=None)).evidence


def test_the_first_ranks_exception_is_the_reason_of_a_crash() -> None:
    errors = ("rank-00001: ValueError: bad", "rank-00000: RuntimeError: connection closed by peer")
    diagnosis = diagnose(replace(PLAIN, agents=FAILED, command_code=1, rank_errors=errors))
    assert diagnosis.cause is Cause.CRASHED
    assert "ValueError: bad" in diagnosis.because


FULL = ("rank-00003: OSError: [Errno 28] No space left on device: '/scratch/x'",)


@pytest.mark.parametrize(
    ("errors", "cause"),
    [
        (FULL, Cause.STORAGE),
        (("rank-00000: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",), Cause.OUT_OF_MEMORY),
        (("rank-00000: RuntimeError: Timed out waiting 15000ms for recv operation to complete",), Cause.HUNG),
    ],
)
def test_a_record_that_says_only_failed_does_not_outrank_who_names_the_cause(
    errors: tuple[str, ...], cause: Cause
) -> None:
    failed = record(state=JobState.FAILED, exit_code=1)
    agents = (FAILED[0], agent(1, Outcome.FAILED, ended_s=6.0))
    assert diagnose(evidence(record=failed, agents=agents, command_code=1, rank_errors=errors)).cause is cause


def test_a_full_disk_is_not_blamed_for_the_end_of_a_job_that_was_stopped_before() -> None:
    stopped = evidence(agents=asked("TERMINATION", at_s=50.0), command_code=75, rank_errors=FULL)
    assert diagnose(replace(stopped, rank_errors_s=(60.0,))).cause is Cause.PREEMPTED
    assert diagnose(stopped).cause is Cause.PREEMPTED  # nothing says when
    assert diagnose(replace(stopped, rank_errors_s=(20.0,))).cause is Cause.STORAGE


def test_a_sigterm_that_came_of_a_peers_failure_is_not_a_preemption() -> None:
    told = agent(1, Outcome.STOPPED, stop_reason="TERMINATION", stop_asked_s=50.0)
    first = agent(0, Outcome.FAILED, command_code=3, ended_s=5.0)
    assert diagnose(evidence(agents=(first, told), command_code=3)).cause is Cause.CRASHED
    later = replace(first, ended_s=51.0)
    assert diagnose(evidence(agents=(later, told), command_code=3)).cause is Cause.PREEMPTED


def test_a_node_that_fell_silent_is_suspected_before_those_who_waited_for_it() -> None:
    waited = ("rank-00000: RuntimeError: Timed out waiting 15000ms for recv operation to complete",)
    agents = (agent(0, Outcome.FAILED, ended_s=9.0), agent(1, Outcome.RUNNING))
    diagnosis = diagnose(evidence(agents=agents, command_code=1, rank_errors=waited))
    assert diagnosis.cause is Cause.CRASHED
    assert "the node agent on n2 was killed" in diagnosis.because


def test_a_command_that_had_failed_before_others_gave_up_on_it_was_no_hang() -> None:
    waited = ("rank-00003: RuntimeError: Timed out waiting 600000ms for recv operation to complete",)
    agents = (agent(0, Outcome.FAILED, ended_s=9.0, command_code=1), agent(1, Outcome.FAILED, ended_s=92.0))
    told = evidence(agents=agents, command_code=1, rank_errors=waited)
    assert diagnose(replace(told, rank_errors_s=(90.0,))).cause is Cause.CRASHED
    assert diagnose(replace(told, rank_errors_s=(8.0,))).cause is Cause.HUNG


def test_what_lost_is_listed_with_who_was_believed() -> None:
    told = evidence(record=record(state=JobState.NODE_FAIL), agents=FAILED, command_code=1, rank_errors=FULL)
    diagnosis = diagnose(told)
    assert diagnosis.cause is Cause.NODE_FAILURE
    (lost,) = diagnosis.outranked
    assert lost.startswith("the log text: a file system said no: rank-00003")
    assert lost.endswith("(storage); Slurm was believed")


def test_who_agrees_or_only_says_that_it_ended_has_lost_nothing() -> None:
    told = evidence(record=record(state=JobState.TIMEOUT), agents=asked("TIME_LIMIT"), exit_notes=(note(256),))
    assert diagnose(told).outranked == ()


NOBODY_KNOWS = "and nothing says by whom: not Slurm, no want of memory, no peer that died before"


def test_all_witnesses_are_heard() -> None:
    told = evidence(
        agents=FAILED,
        command_code=3,
        exit_notes=(note(9), note(0, 1)),
        log_lines=("srun: error: n1: task 0: Killed",),
        saves_failed=("old", "no space"),
        supervisor_signals=("SIGTERM", "SIGTERM"),
    )
    assert diagnose(told).evidence == (
        "Slurm: RUNNING, reason None, 0 restarts",
        f"task 0 on n1 was killed by SIGKILL, {NOBODY_KNOWS}",
        "node agent 0 on n1: failed, command left with 3, the command left with 3",
        "node agent 1 on n2: finished",
        "the step left with 3",
        "the supervisor heard SIGTERM",
        "the output says: srun: error: n1: task 0: Killed",
        "a save failed: no space",
    )


def test_a_death_that_says_something_about_what_was_loaded_has_a_signature() -> None:
    words = ("rank-00001: ValueError: bad batch 17 on n1",)
    crash = evidence(agents=FAILED, command_code=1, rank_errors=words)
    assert diagnose(crash).signature == "crashed: ValueError: bad batch <n> on <host>"
    assert diagnose(replace(crash, rank_errors=())).signature == "crashed: exit 3"
    assert diagnose(replace(crash, rank_errors=(), exit_notes=(note(11),))).signature == "crashed: SIGSEGV"
    assert diagnose(replace(crash, rank_errors=(), exit_notes=(note(139 << 8),))).signature == "crashed: SIGSEGV"
    assert diagnose(replace(crash, record=replace(RECORD, state=JobState.NODE_FAIL))).signature is None


def test_a_death_that_only_its_peers_have_seen_has_no_signature() -> None:
    peers = ("rank-00000: RuntimeError: [gloo/pair.cc:1] Connection closed by peer [10.0.0.1]:4711",)
    crash = evidence(agents=FAILED, command_code=1, rank_errors=peers)
    assert diagnose(crash).cause is Cause.CRASHED
    assert diagnose(crash).signature is None
    assert diagnose(replace(crash, exit_notes=(note(9),))).signature == "crashed: SIGKILL"
