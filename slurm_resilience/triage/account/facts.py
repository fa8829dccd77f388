"""What is known beside the lines of the logs: records of agents, tasks' ends, clocks, nodes, dumps. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_resilience.manifest.agent_record import AgentRecord
from slurm_resilience.triage.account.account import Unread, Verdict
from slurm_resilience.triage.account.collectives import Behind
from slurm_resilience.triage.event import Place
from slurm_resilience.triage.exit_notes import ExitNote


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A log that was read: whose it is, and until when somebody wrote there."""

    file: str
    node: str | None = None
    rank: int | None = None
    last_s: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    about: str = "the logs"
    verdict: Verdict | None = None
    job: str | None = None
    attempt: int | None = None
    """The one to tell of; None: the newest that the logs know."""
    nodes: tuple[str, ...] = ()
    """All that took part, by Slurm's names; empty: not known."""
    world_size: int | None = None
    agents: tuple[AgentRecord, ...] = ()
    unheard: tuple[str, ...] = ()
    """Nodes whose agent left no record at all."""
    exit_notes: tuple[ExitNote, ...] = ()
    task_is_rank: bool = False
    """A plain command: one task, one rank. Below torchrun a task is a node's agent."""
    ranks_per_node: int | None = None
    """Below our node agents ranks follow the nodes' ids: that of a local rank can be told then."""
    attempt_by_torchrun: bool = False
    """It is known that torchrun has started the ranks."""
    stop_asked_s: float | None = None
    """When somebody asked for a stop: what came after that is nobody's fault."""
    offsets_s: Mapping[str, float] = field(default_factory=dict)
    """By how much a node's clock is ahead, as preflight has measured it."""
    behind: Behind | None = None
    """Of the ranks' collectives: who is behind, missing, or does something else."""
    logs: tuple[LogEnd, ...] = ()
    went_on: frozenset[Place] = frozenset()
    """Where something was printed, behind which the program went on as before."""
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    releases: Mapping[str, str] = field(default_factory=dict)
    """Of writers, where known: `{"torch": "2.13.0", "slurm": "22.05"}`."""
