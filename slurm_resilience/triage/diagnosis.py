"""Why an attempt ended. Pure: evidence in, a cause with its reasons out.

Order of trust: what the run's own journal says of its end, Slurm's record, what the node agents were told, how the
command left. A witness that is missing is never good news.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRecord, JobState

TIME_LIMIT_REASON = "TimeLimit"
"""What a job that completes because its time is over has as its reason (22.05.8, docs/slurm_facts.md)."""
END_OF_TIME_S = 90.0
"""A SIGTERM or warning this close to the job's end is the time limit's: warned up to 60 s early, killed 30 s late."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known when an attempt is over."""

    training_finished: bool
    """The journal has TrainingFinished or RunFinished."""
    agents: tuple[AgentRecord, ...]
    agents_expected: int
    unheard: tuple[str, ...]
    """The nodes, where known, whose agents left no record."""
    command_code: int | None
    """How srun (or the local agent) left; None: it didn't, we do not know."""
    supervisor_signals: tuple[str, ...]
    """Names of the signals the supervisor itself was sent."""
    supervisor_died: bool
    record: JobRecord | None
    """Slurm's record, asked after the end; None: no answer, or no Slurm."""
    in_grace: bool
    """Whether Slurm's record showed a preemption while the attempt still ran: it forgets that when it requeues."""
    slurm: bool
    """Whether the attempt ran under Slurm at all."""
    restarts_at_start: int
    end_s: float | None
    """The end of the job's time as known at the start."""
    now_s: float
    rank_errors: tuple[str, ...] = ()
    """Last line of each rank's exception, in the order of time."""
    fenced: bool = False
    restarted_by_slurm: bool = False
    """Slurm has started the same job anew although nobody of ours asked for it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    cause: Cause
    because: str
    evidence: tuple[str, ...]


def _witnesses(evidence: Evidence) -> tuple[str, ...]:
    said: list[str] = []
    record = evidence.record
    if record is not None:
        flag = " (completing)" if record.completing else ""
        said.append(f"Slurm: {record.state.value}{flag}, reason {record.reason or 'none'}, {record.restarts} restarts")
    elif evidence.slurm:
        said.append("Slurm: no answer")
    for agent in evidence.agents:
        heard = ", ".join(dict.fromkeys(name for name, _ in agent.signals))
        said.append(
            f"node agent {agent.node_id} on {agent.host}: {agent.outcome.value}"
            + (f", heard {heard}" if heard else "")
            + (f", asked to stop: {agent.stop_because}" if agent.stop_because else "")
            + (f", command left with {agent.command_code}" if agent.command_code is not None else "")
            + (f", {agent.why}" if agent.why else "")
        )
    missing = evidence.agents_expected - len(evidence.agents)
    if missing > 0:
        where = f": {', '.join(evidence.unheard)}" if evidence.unheard else ""
        said.append(f"{missing} of {evidence.agents_expected} node agents left no record{where}")
    if evidence.command_code is not None:
        said.append(f"the step left with {evidence.command_code}")
    if evidence.supervisor_signals:
        said.append(f"the supervisor heard {', '.join(dict.fromkeys(evidence.supervisor_signals))}")
    said += [f"a rank's last words: {words}" for words in evidence.rank_errors[:3]]
    return tuple(said)


def _by_record(evidence: Evidence) -> tuple[Cause, str] | None:
    """What Slurm's record alone proves."""
    record = evidence.record
    if record is None:
        return None
    if record.state is JobState.CANCELLED:
        return Cause.CANCELLED, f"job {record.job} was cancelled"
    if record.restarts > evidence.restarts_at_start:
        if record.preempted_s is not None or evidence.in_grace:
            return Cause.PREEMPTED, f"job {record.job} was preempted and Slurm has queued it again"
        return Cause.REQUEUED_BY_HAND, f"job {record.job} was requeued while it ran, by a person or by Slurm"
    if record.state is JobState.TIMEOUT or (record.completing and record.reason == TIME_LIMIT_REASON):
        return Cause.TIME_LIMIT, f"job {record.job} reached its time limit"
    if record.state is JobState.NODE_FAIL:
        return Cause.NODE_FAILURE, f"a node of job {record.job} failed"
    if record.state is JobState.PREEMPTED or (record.preempted_s is not None and not record.completing):
        return Cause.PREEMPTED, f"job {record.job} is being preempted"
    if record.state is JobState.OUT_OF_MEMORY:
        return Cause.OUT_OF_MEMORY, f"job {record.job} ran out of memory"
    if record.completing and not evidence.supervisor_died:
        # Slurm is ending a job whose batch script lives, doesn't queue it again and names no time limit.
        return Cause.CANCELLED, f"job {record.job} was cancelled"
    return None


def _by_stop(evidence: Evidence) -> tuple[Cause, str] | None:
    """What the node agents were asked."""
    asked = [agent for agent in evidence.agents if agent.stop_reason is not None]
    reasons = {agent.stop_reason for agent in asked}
    words = next((agent.stop_because for agent in asked if agent.stop_because), "")
    near_end = evidence.end_s is not None and evidence.now_s >= evidence.end_s - END_OF_TIME_S
    if "FENCED" in reasons:
        return Cause.FENCED, "a newer attempt of the run has started"
    if "OPERATOR" in reasons:
        return Cause.OPERATOR_STOP, words or "somebody asked the run to stop"
    if "SIGINT" in evidence.supervisor_signals:  # whether or not an agent lived to write down that it was told
        return Cause.OPERATOR_STOP, "SIGINT to srun-resilient"
    if "TIME_LIMIT" in reasons:
        return Cause.TIME_LIMIT, words or "the job's time was nearly over"
    heard_termination = "TERMINATION" in reasons or "SIGTERM" in evidence.supervisor_signals
    if heard_termination and near_end:
        return Cause.TIME_LIMIT, "SIGTERM came at the end of the job's time"
    if heard_termination:
        return Cause.PREEMPTED, "SIGTERM came before the job's time was over, and Slurm's record names no other reason"
    if "WARNING" in reasons or {"SIGUSR1", "SIGUSR2"} & set(evidence.supervisor_signals):
        if near_end:
            return Cause.TIME_LIMIT, "the warning came at the end of the job's time"
        return Cause.WARNED, words or "a warning signal came before the job's time was over"
    return None


def _by_exit(evidence: Evidence) -> tuple[Cause, str]:
    """How the command left, where nobody had asked it to."""
    silent = [agent for agent in evidence.agents if agent.outcome is Outcome.RUNNING]
    failed = [agent for agent in evidence.agents if agent.outcome in (Outcome.FAILED, Outcome.NOT_STARTED)]
    if silent and not evidence.rank_errors:
        where = ", ".join(agent.host for agent in silent)
        return Cause.CRASHED, f"the node agent on {where} was killed before it could say why"
    if evidence.rank_errors:
        return Cause.CRASHED, f"a rank raised: {evidence.rank_errors[0]}"
    if failed:
        first = min(failed, key=lambda agent: agent.ended_s or evidence.now_s)
        why = first.why or f"the command left with {first.command_code}"
        return Cause.CRASHED, f"on {first.host}: {why}"
    if evidence.command_code in (0, 75) and evidence.agents:
        return Cause.UNKNOWN, "the command left in order, but nothing says that it finished or was asked to stop"
    if evidence.command_code == 0:
        return Cause.UNKNOWN, "the step left with 0, but no node agent left a record of it"
    if evidence.command_code is not None and not evidence.agents:
        return Cause.CRASHED, f"the step left with {evidence.command_code} before any node agent started"
    return Cause.UNKNOWN, "nothing says how the attempt ended"


def diagnose(evidence: Evidence) -> Diagnosis:
    """The cause with one sentence of why, and all witnesses for it."""
    witnesses = _witnesses(evidence)
    everybody_finished = (
        len(evidence.agents) == evidence.agents_expected > 0
        and all(agent.outcome is Outcome.FINISHED for agent in evidence.agents)
        and evidence.command_code in (0, None)  # None: nobody was there any more to see srun leave
    )
    if evidence.training_finished:
        return Diagnosis(Cause.FINISHED, "the training came to its own end", witnesses)
    if everybody_finished:
        return Diagnosis(Cause.FINISHED, "the command left with 0 on every node, unasked", witnesses)
    if evidence.fenced:
        return Diagnosis(Cause.FENCED, "a newer attempt of the run has started", witnesses)
    by_record, by_stop = _by_record(evidence), _by_stop(evidence)
    if (
        by_stop is not None
        and by_stop[0] is Cause.OPERATOR_STOP
        and (by_record is None or by_record[0] is not Cause.CANCELLED)
    ):
        return Diagnosis(*by_stop, witnesses)  # a person's word outranks a preemption that came on top of it
    if by_record is not None:
        return Diagnosis(*by_record, witnesses)
    if by_stop is not None:
        if by_stop[0] is Cause.PREEMPTED and evidence.supervisor_died and not evidence.restarted_by_slurm:
            # That SIGTERM is Slurm's answer to the death of the batch script.
            return Diagnosis(Cause.SUPERVISOR_DIED, "the supervisor was killed while the training ran", witnesses)
        return Diagnosis(*by_stop, witnesses)
    unheard = all(agent.outcome is Outcome.RUNNING for agent in evidence.agents)
    if evidence.restarted_by_slurm and unheard:
        return Diagnosis(
            Cause.NODE_FAILURE,
            "Slurm started the job anew, and nobody of the attempt could say a word: a node of it failed",
            witnesses,
        )
    cause, because = _by_exit(evidence)
    if evidence.supervisor_died and cause is Cause.UNKNOWN:
        return Diagnosis(Cause.SUPERVISOR_DIED, "the supervisor was killed while the training ran", witnesses)
    return Diagnosis(cause, because, witnesses)
