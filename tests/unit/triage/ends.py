"""Ends of an attempt on two nodes, for tables: what everybody said, and what is changed about it."""

from __future__ import annotations

from dataclasses import replace

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, PastLife
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.exit_notes import ExitNote

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


def asked(reason: str, because: str = "asked", at_s: float = 50.0) -> tuple[AgentRecord, ...]:
    return tuple(
        agent(n, Outcome.STOPPED, stop_reason=reason, stop_because=because, stop_asked_s=at_s, command_code=0)
        for n in range(2)
    )


def record(**changed: object) -> JobRecord:
    return replace(RECORD, **changed)  # type: ignore[arg-type]


def life(state: JobState, **changed: object) -> PastLife:
    plain = PastLife(state, None, 0, 0, 0.0, 100.0, "n[1-2]", "None")
    return replace(plain, **changed)  # type: ignore[arg-type]


def note(status: int, rank: int = 0, time_s: float = 20.0) -> ExitNote:
    return ExitNote("7", 0, 0, f"n{rank + 1}", rank, 100 + rank, status, time_s)


def evidence(**changed: object) -> Evidence:
    return replace(PLAIN, **changed)  # type: ignore[arg-type]


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
NOBODY: dict[str, object] = {"agents": (), "command_code": None, "supervisor_died": True}
"""Nothing of a step ever ran."""
