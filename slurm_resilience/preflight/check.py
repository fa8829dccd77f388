"""What a check is: a function that looks at one node, run in a process of its own that is killed when it hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.result import Finding, Outcome

Tell = Callable[[str], None]
"""Says what comes next (`writing /scratch/run/x`): of a check that hangs it is told how far it came."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a check, or a node's part of a round, may know. Its values travel as JSON."""

    node: str
    """By Slurm's name; without Slurm the host's."""
    environment: Mapping[str, str]
    root: Path = Path("/")
    """Where `proc` and `sys` are: a folder of their likeness, in tests."""
    run_dir: Path | None = None
    """Where the run is to be, whether or not it is there yet; on shared storage."""
    checkpoint_bytes: int | None = None
    """Of one checkpoint, all ranks together: measured by an earlier attempt, or the user's estimate."""
    checkpoints: int = 3
    """How many must fit at once."""
    ranks_per_node: int | None = None
    gpus: int | None = None
    """As many as the job has been given on this node; None: not known."""
    interface: str | None = None
    """The one that the job will use, where it was named."""
    python: str | None = None
    """The interpreter of the training; None: our own."""
    baseline: Mapping[str, Any] | None = None
    """What was measured on this node before, by check."""


CheckFunction = Callable[[Context, Tell], Iterable[Finding]]
"""Findings as they come. What it raises makes it BROKEN; so does an end without any finding."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    """As in tables, `--only` and `--skip`: `shared-memory`."""
    what: str
    """What is looked at, in a few words, for lists."""
    function: str
    """`module:name`: imported in the process that runs it."""
    timeout_s: float = 5.0
    hung: Outcome = Outcome.BROKEN
    """What it means when it doesn't come back. FAIL where that is the very fault it looks for: a mount that hangs."""
    alone: bool = False
    """It measures a speed: nothing else of ours runs on the node meanwhile."""
