"""All that the witnesses of an end have said, one sentence each, for people to read. Pure."""

from __future__ import annotations

from slurm_resilience.manifest.agent_record import AgentRecord
from slurm_resilience.slurm.client import PastLife
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.exit_witness import how_it_ended, killer_of
from slurm_resilience.triage.preflight_witness import preflights_words

QUOTED = 3
"""How many of the ranks' words, of the output's lines and of the tasks' ends are worth reading."""


def testimony(evidence: Evidence) -> tuple[str, ...]:
    said = [*_slurm(evidence), *map(str, evidence.unhealthy), *preflights_words(evidence), *_tasks(evidence)]
    said += [_agent(agent) for agent in evidence.agents]
    missing = evidence.agents_expected - len(evidence.agents)
    if missing > 0:
        where = f": {', '.join(evidence.unheard)}" if evidence.unheard else ""
        said.append(f"{missing} of {evidence.agents_expected} node agents left no record{where}")
    if evidence.command_code is not None:
        said.append(f"the step left with {evidence.command_code}")
    if evidence.supervisor_signals:
        said.append(f"the supervisor heard {', '.join(dict.fromkeys(evidence.supervisor_signals))}")
    said += [f"a rank's last words: {words}" for words in evidence.rank_errors[:QUOTED]]
    said += [f"the output says: {line}" for line in evidence.log_lines[:QUOTED]]
    said += [f"a save failed: {why}" for why in evidence.saves_failed[-1:]]
    return tuple(said)


def _slurm(evidence: Evidence) -> list[str]:
    said = []
    record = evidence.record
    if record is not None:
        flag = " (completing)" if record.completing else ""
        said.append(f"Slurm: {record.state.value}{flag}, reason {record.reason or 'none'}, {record.restarts} restarts")
    elif evidence.slurm:
        said.append("Slurm: no answer")
    if evidence.lives:
        said.append(f"accounting: {', then '.join(_life(life) for life in evidence.lives[-QUOTED:])}")
    return said


def _life(life: PastLife) -> str:
    by = f" by user {life.cancelled_by}" if life.cancelled_by is not None else ""
    return f"{life.state.value}{by}" + ("" if life.start_s is not None else ", never started")


def _tasks(evidence: Evidence) -> list[str]:
    ended_badly = [note for note in evidence.exit_notes if note.status != 0]
    return [f"task {note.rank} on {note.node} {_how(note, evidence)}" for note in ended_badly[:QUOTED]]


def _how(note: ExitNote, evidence: Evidence) -> str:
    """Of a command behind a task it is only said how it ended: its node agent may have killed it."""
    kill = killer_of(note, evidence) if note.signal is not None else None
    return how_it_ended(note) if kill is None else f"{how_it_ended(note)}, {kill.how}"


def _agent(agent: AgentRecord) -> str:
    heard = ", ".join(dict.fromkeys(name for name, _ in agent.signals))
    return (
        f"node agent {agent.node_id} on {agent.host}: {agent.outcome.value}"
        + (f", heard {heard}" if heard else "")
        + (f", asked to stop: {agent.stop_because}" if agent.stop_because else "")
        + (f", command left with {agent.command_code}" if agent.command_code is not None else "")
        + (f", {agent.why}" if agent.why else "")
    )
