"""What a node agent leaves behind about its node: the supervisor's best witness."""

from __future__ import annotations

import enum
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ManifestUnsupported

FORMAT = 1
_READ_TRIES = 3


class Outcome(enum.Enum):
    """How the command on this node ended. RUNNING in the record of a dead agent: it was killed before it could say."""

    RUNNING = "running"
    FINISHED = "finished"  # left with 0 and nobody had asked it to stop, or our library says the training finished
    STOPPED = "stopped"  # asked to stop, saved where it can, left in order
    KILLED_AT_DEADLINE = "killed at the deadline"
    FAILED = "failed"
    NOT_STARTED = "not started"  # the command could not be started at all


@dataclass(frozen=True, slots=True)
class RankEnd:
    """A rank process as last seen by the agent."""

    rank: int
    local_rank: int
    pid: int
    phase: str
    step: int
    saved_step: int
    stopped_after_step: int


@dataclass(frozen=True, slots=True)
class AgentRecord:
    node_id: int
    host: str
    pid: int
    started_s: float
    outcome: Outcome
    signals: tuple[tuple[str, float], ...] = ()
    """Name and time (since the epoch) of every signal the agent was sent."""
    stop_reason: str | None = None
    stop_because: str | None = None
    stop_asked_s: float | None = None
    ranks: tuple[RankEnd, ...] = ()
    command_code: int | None = None
    """As the shell would say it: 128 + n for a signal."""
    why: str | None = None
    """One sentence where there is something to say: what killed it, which file was missing."""
    ended_s: float | None = None


def write_agent_record(path: Path, record: AgentRecord) -> None:
    value = asdict(record)
    value["outcome"] = record.outcome.value
    value["format"] = FORMAT
    replace_durably(path, json.dumps(value, indent=1).encode())


def touch_agent_record(path: Path) -> None:
    """A sign of life: cheaper for the file server than writing what has not changed. Raises OSError."""
    os.utime(path)


def read_agent_record(path: Path) -> AgentRecord | None:
    """None where there is none, or it is unreadable: then nobody knows. Raises ManifestUnsupported."""
    for _ in range(_READ_TRIES):
        try:
            value = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        except OSError:  # replaced under our eyes: NFS has no bytes for who opened the old one (ESTALE)
            continue
        return _understood(path, value)
    return None


def _understood(path: Path, value: Any) -> AgentRecord:
    if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
        raise ManifestUnsupported(f"{path} was written by a format this version doesn't know")
    try:
        value["outcome"] = Outcome(value["outcome"])
        value["signals"] = tuple((name, time_s) for name, time_s in value["signals"])
        value["ranks"] = tuple(RankEnd(**rank) for rank in value["ranks"])
        return AgentRecord(**value)
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestUnsupported(f"{path} holds what this version doesn't know: {error}") from error
