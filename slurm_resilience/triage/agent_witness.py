"""What the node agents, and the signals that the supervisor heard, say of the end. Pure."""

from __future__ import annotations

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.finding import Finding, Source, Weight

HUNG_WORDS = "launcher hung"
"""What an agent writes of a rank that died while torchrun did nothing about it (agent/verdict.py)."""


def everybody_finished(evidence: Evidence) -> bool:
    return (
        len(evidence.agents) == evidence.agents_expected > 0
        and all(agent.outcome is Outcome.FINISHED for agent in evidence.agents)
        and evidence.command_code in (0, None)  # None: nobody was there any more to see srun leave
    )


def a_persons_stop(evidence: Evidence) -> Finding | None:
    """Somebody asked the run to stop; whatever came on top of that, it was their word."""
    if "FENCED" in evidence.stop_reasons:
        return None
    if "OPERATOR" in evidence.stop_reasons:
        because = _words(evidence) or "somebody asked the run to stop"
    elif "SIGINT" in evidence.supervisor_signals:  # whether or not an agent lived to write down that it was told
        because = "SIGINT to srun-resilient"
    else:
        return None
    return Finding(Source.PERSON, Weight.EXPLICIT, Cause.OPERATOR_STOP, because)


def agents_finding(evidence: Evidence) -> Finding | None:
    if "FENCED" in evidence.stop_reasons:
        return _finding(Weight.EXPLICIT, Cause.FENCED, "a newer attempt of the run has started")
    stopped = None if evidence.asked_to_stop and evidence.failed_first else _by_stop(evidence)
    return stopped or _started_anew(evidence) or _by_outcome(evidence)


def _finding(weight: Weight, cause: Cause, because: str, words: str | None = None) -> Finding:
    return Finding(Source.AGENTS, weight, cause, because, words)


def _words(evidence: Evidence) -> str:
    return next((agent.stop_because for agent in evidence.agents if agent.stop_because), "")


def _by_stop(evidence: Evidence) -> Finding | None:
    """What the agents were asked first. Where a command had failed before that, the signals came of its failure."""
    reasons = evidence.stop_reasons
    if "TIME_LIMIT" in reasons:
        return _finding(Weight.EXPLICIT, Cause.TIME_LIMIT, _words(evidence) or "the job's time was nearly over")
    if evidence.terminated and evidence.near_end:
        return _finding(Weight.IMPLIED, Cause.TIME_LIMIT, "SIGTERM came at the end of the job's time")
    if evidence.terminated and evidence.supervisor_died and not evidence.restarted_by_slurm:
        # That SIGTERM is Slurm's answer to the death of the batch script.
        return _finding(Weight.IMPLIED, Cause.SUPERVISOR_DIED, "the supervisor was killed while the training ran")
    if evidence.terminated and evidence.record is None and evidence.lost:
        where = ", ".join(agent.host for agent in evidence.lost)
        because = f"SIGTERM came to every node but {where}: it was lost, and Slurm ended the others"
        return _finding(Weight.IMPLIED, Cause.NODE_FAILURE, because)
    if evidence.terminated:
        because = "SIGTERM came before the job's time was over, and Slurm's record names no other reason"
        return _finding(Weight.IMPLIED, Cause.PREEMPTED, because)
    if "WARNING" in reasons or {"SIGUSR1", "SIGUSR2"} & set(evidence.supervisor_signals):
        if evidence.near_end:
            return _finding(Weight.IMPLIED, Cause.TIME_LIMIT, "the warning came at the end of the job's time")
        because = _words(evidence) or "a warning signal came before the job's time was over"
        return _finding(Weight.IMPLIED, Cause.WARNED, because)
    return None


def _started_anew(evidence: Evidence) -> Finding | None:
    if not evidence.restarted_by_slurm or len(evidence.silent) != len(evidence.agents):
        return None
    because = "Slurm started the job anew, and nobody of the attempt could say a word: a node of it failed"
    return _finding(Weight.IMPLIED, Cause.NODE_FAILURE, because)


def _by_outcome(evidence: Evidence) -> Finding | None:
    """How the commands ended, where nobody had asked them to. A killed agent is the first suspect."""
    if evidence.silent:
        where = ", ".join(agent.host for agent in evidence.silent)
        because = f"the node agent on {where} was killed before it could say why"
        return _finding(Weight.BARE, Cause.CRASHED, because)
    failed = evidence.failed_first or tuple(
        a for a in evidence.agents if a.outcome in (Outcome.FAILED, Outcome.NOT_STARTED)
    )
    if not failed:
        return None
    return _by_failure(min(failed, key=lambda agent: evidence.now_s if agent.ended_s is None else agent.ended_s))


def _by_failure(agent: AgentRecord) -> Finding:
    why = agent.why or f"the command left with {agent.command_code}"
    because = f"on {agent.host}: {why}"
    if agent.outcome is Outcome.NOT_STARTED:
        return _finding(Weight.EXPLICIT, Cause.CRASHED, because, why)
    if HUNG_WORDS in why:
        return _finding(Weight.IMPLIED, Cause.HUNG, because, why)
    return _finding(Weight.BARE, Cause.CRASHED, because)
