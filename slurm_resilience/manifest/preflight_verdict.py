"""What an attempt's preflight came to: written by the supervisor before anything follows from it.

Whoever tells the end of the attempt in the supervisor's place finds here why no step was started.
"""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.manifest.run_directory import RunDirectory

FORMAT = 1


class Then(enum.Enum):
    """What is done about it."""

    GO_ON = "go on"
    GO_ON_WITHOUT = "go on without"  # the job has nodes to spare: the step runs on others of them
    LEAVE_OUT = "leave out"  # this attempt is over, and the next one gets other nodes
    REFUSE = "refuse"  # nothing is started, and nothing is queued again
    STOPPED = "stopped"  # a person said stop meanwhile


@dataclass(frozen=True, slots=True)
class Unfit:
    """A node that is left out, and why."""

    node: str
    findings: tuple[str, ...]
    """`CHECK: what it says`."""


@dataclass(frozen=True, slots=True)
class PreflightVerdict:
    then: Then
    because: str
    """One sentence, without its full stop."""
    nodes: tuple[str, ...] = ()
    """All that were looked at."""
    unfit: tuple[Unfit, ...] = ()
    checks: tuple[str, ...] = ()
    """Those that failed."""
    remedy: str | None = None
    warnings: tuple[str, ...] = ()


def verdict_path(run: RunDirectory, attempt: int) -> Path:
    return run.attempt(attempt) / "preflight.json"


def write_verdict(run: RunDirectory, attempt: int, verdict: PreflightVerdict) -> None:
    """Raises OSError."""
    value = {"format": FORMAT, **asdict(verdict), "then": verdict.then.value}
    replace_durably(verdict_path(run, attempt), json.dumps(value, indent=1).encode() + b"\n")


def read_verdict(run: RunDirectory, attempt: int) -> PreflightVerdict | None:
    """None: there was no preflight, or nobody can read what it came to."""
    try:
        value = json.loads(verdict_path(run, attempt).read_bytes())
        if value["format"] != FORMAT:
            return None
        return PreflightVerdict(
            Then(value["then"]),
            str(value["because"]),
            _words(value["nodes"]),
            tuple(Unfit(str(each["node"]), _words(each["findings"])) for each in value["unfit"]),
            _words(value["checks"]),
            None if value["remedy"] is None else str(value["remedy"]),
            _words(value["warnings"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(str(each) for each in value)
