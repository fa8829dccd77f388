"""What holds whatever the witnesses say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRecord, JobState, PastLife
from slurm_resilience.triage.agent_witness import everybody_finished
from slurm_resilience.triage.diagnosis import diagnose
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.finding import Weight
from slurm_resilience.triage.health_notes import HealthNote, Mode
from slurm_resilience.triage.slurm_witness import slurms_finding
from tests.unit.triage.ends import PLAIN, RECORD
from tests.unit.triage.test_patterns import LINES

times = st.floats(0.0, 200.0)
agents: st.SearchStrategy[AgentRecord] = st.builds(
    AgentRecord,
    st.integers(0, 1),
    st.sampled_from(["n1", "n2"]),
    st.just(1),
    st.just(0.0),
    st.sampled_from(Outcome),
    stop_reason=st.none()
    | st.sampled_from(["WARNING", "TERMINATION", "TIME_LIMIT", "OPERATOR", "PEER_FAILED", "FENCED"]),
    stop_because=st.none() | st.just("asked"),
    stop_asked_s=st.none() | times,
    command_code=st.none() | st.sampled_from([0, 1, 3, 137, 143]),
    why=st.none() | st.sampled_from(["the command left with 3", "rank 1 died; its launcher hung and was killed"]),
    ended_s=st.none() | times,
)
records: st.SearchStrategy[JobRecord] = st.builds(
    replace,
    st.just(RECORD),
    state=st.sampled_from(JobState),
    completing=st.booleans(),
    restarts=st.integers(0, 2),
    requeue=st.booleans(),
    preempted_s=st.none() | times,
    start_s=st.none() | times,
    end_s=st.none() | times,
    reason=st.sampled_from(["None", "TimeLimit", "launch_failed_requeued_held", "JobLaunchFailure", "Priority"]),
    exit_code=st.sampled_from([0, 1, 137]),
    exit_signal=st.sampled_from([0, 9, 125]),
)
lives: st.SearchStrategy[PastLife] = st.builds(
    PastLife,
    st.sampled_from(JobState),
    st.none() | st.integers(0, 1),
    st.just(0),
    st.just(0),
    st.none() | times,
    st.none() | times,
    st.sampled_from(["", "n[1-2]"]),
    st.just(""),
)
notes: st.SearchStrategy[ExitNote] = st.builds(
    ExitNote, st.just("7"), st.just(0), st.just(0), st.just("n1"), st.just(0), st.just(1), st.integers(0, 0xFFFF), times
)
healths: st.SearchStrategy[HealthNote] = st.builds(
    HealthNote, st.sampled_from(["n1", "n2"]), st.sampled_from(Mode), st.just(("disk: full",))
)
lines = st.sampled_from([*(line for line, _, _ in LINES), "ValueError: bad", "Killed"])
evidences: st.SearchStrategy[Evidence] = st.builds(
    replace,
    st.just(PLAIN),
    training_finished=st.booleans(),
    agents=st.lists(agents, max_size=3).map(tuple),
    agents_expected=st.integers(0, 3),
    command_code=st.none() | st.sampled_from([0, 1, 75, 137, 253]),
    supervisor_signals=st.lists(st.sampled_from(["SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP"]), max_size=2).map(tuple),
    supervisor_died=st.booleans(),
    record=st.none() | records,
    in_grace=st.booleans(),
    restarts_at_start=st.integers(0, 1),
    end_s=st.none() | st.floats(0.0, 1000.0),
    rank_errors=st.lists(lines, max_size=3).map(tuple),
    rank_errors_s=st.lists(times, max_size=3).map(tuple),
    fenced=st.booleans(),
    restarted_by_slurm=st.booleans(),
    lives=st.lists(lives, max_size=3).map(tuple),
    exit_notes=st.lists(notes, max_size=2).map(tuple),
    health=st.lists(healths, max_size=1).map(tuple),
    log_lines=st.lists(lines, max_size=2).map(tuple),
    saves_failed=st.lists(st.sampled_from(["No space left on device", "no answer"]), max_size=1).map(tuple),
    release=st.none() | st.sampled_from([(22, 5), (24, 11)]),
    preempt_mode=st.sampled_from(["", "REQUEUE", "CANCEL", "GANG,SUSPEND", "OFF"]),
    user_id=st.none() | st.integers(0, 1),
)
GONE = (Cause.CANCELLED, Cause.CANCELLED_BY_ADMIN)


@given(evidences)
def test_every_end_has_a_sentence_for_what_it_was_and_for_what_it_was_not(told: Evidence) -> None:
    diagnosis = diagnose(told)
    for sentence in (diagnosis.because, *diagnosis.outranked, *diagnosis.evidence):
        assert sentence.strip()
        assert not sentence.endswith(".\n")


@given(evidences)
def test_only_the_journal_or_all_agents_say_that_it_finished(told: Evidence) -> None:
    if diagnose(told).cause is Cause.FINISHED:
        assert told.training_finished or everybody_finished(told)


@given(evidences)
def test_a_record_that_is_missing_or_says_nothing_is_no_cancellation(told: Evidence) -> None:
    for nothing in (None, replace(RECORD, state=JobState.UNKNOWN)):
        assert diagnose(replace(told, record=nothing, lives=())).cause not in GONE


@given(evidences)
def test_slurms_explicit_word_stands_whatever_weaker_witnesses_add(told: Evidence) -> None:
    """Stronger ones aside: the journal, all agents who finished, a person's stop."""
    told = replace(
        told,
        training_finished=False,
        fenced=False,
        agents_expected=len(told.agents) + 1,
        agents=tuple(agent for agent in told.agents if agent.stop_reason != "OPERATOR"),
        supervisor_signals=tuple(name for name in told.supervisor_signals if name != "SIGINT"),
    )
    alone = replace(
        told,
        agents=(),
        supervisor_signals=(),
        command_code=None,
        exit_notes=(),
        health=(),
        rank_errors=(),
        log_lines=(),
        saves_failed=(),
    )
    found = slurms_finding(alone)
    assume(found is not None and found.weight is Weight.EXPLICIT)
    assert found is not None
    assert diagnose(told).cause is found.cause


@given(evidences, st.lists(lines, max_size=3).map(tuple), st.lists(lines, max_size=3).map(tuple))
def test_text_changes_no_verdict_that_somebody_better_has_named(
    told: Evidence, errors: tuple[str, ...], printed: tuple[str, ...]
) -> None:
    silent = replace(told, rank_errors=(), rank_errors_s=(), log_lines=(), saves_failed=())
    before = diagnose(silent)
    assume(before.cause in (*GONE, Cause.FINISHED, Cause.FENCED, Cause.OPERATOR_STOP, Cause.TIME_LIMIT))
    assume(told.record is not None and told.record.state is not JobState.UNKNOWN)
    after = diagnose(replace(silent, rank_errors=errors, log_lines=printed))
    if before.cause is not Cause.TIME_LIMIT or told.record is None or told.record.state is JobState.TIMEOUT:
        assert after.cause is before.cause


@given(evidences)
def test_only_a_death_that_may_be_the_checkpoints_has_a_signature(told: Evidence) -> None:
    diagnosis = diagnose(told)
    if diagnosis.signature is not None:
        assert diagnosis.cause in (Cause.CRASHED, Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.UNKNOWN)
