"""What preflight is asked for, and what it can do: values that the command line and the supervisor make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.result import Result
from slurm_resilience.preflight.round import Round

START_LIMIT_S = 20.0
PRESENCE, CLOCK = "presence", "clock"
"""The two that belong to the conductor: whether a node answers at all, and what its clock says."""
OWN: Mapping[str, str] = {
    PRESENCE: "every node answers, from the beginning to the end",
    CLOCK: "how far apart the nodes' clocks are",
}


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    run_dir: Path | None = None
    checkpoint_bytes: int | None = None
    checkpoints: int = 3
    ranks_per_node: int | None = None
    interface: str | None = None
    python: str | None = None
    all_reduce: bool = True
    """Whether to try one: without torch, the round itself finds nothing to do."""
    only: tuple[str, ...] = ()
    """Names of checks and rounds; empty: all."""
    skip: tuple[str, ...] = ()
    time_limit_s: float = 60.0
    """From the first node's word on, for everything."""
    start_limit_s: float = START_LIMIT_S
    """For a node's first word: from the start, or where the step has to queue, from the first node's."""
    silence_limit_s: float = 15.0
    """A node that works says so every second. After this long without a word it is lost."""

    def wants(self, name: str) -> bool:
        return (not self.only or name in self.only) and name not in self.skip

    def context(self) -> Context:
        """What all nodes have in common."""
        return Context(
            node="",
            environment={},
            run_dir=self.run_dir,
            checkpoint_bytes=self.checkpoint_bytes,
            checkpoints=self.checkpoints,
            ranks_per_node=self.ranks_per_node,
            interface=self.interface,
            python=self.python,
        )


class MakeRounds(Protocol):
    def __call__(
        self, *, all_reduce: bool, run_dir: Path | None, baselines: Mapping[str, Mapping[str, Any]], time_limit_s: float
    ) -> Sequence[Round]: ...


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything there is to look at."""

    checks: tuple[Check, ...] = ()
    rounds: MakeRounds = lambda **_: ()
    across: Callable[[Sequence[Result]], Sequence[Result]] = lambda _: ()
    """Judges the nodes' findings against each other. Pure."""
    about_across: Mapping[str, str] = field(default_factory=dict)
    """What it looks at, by name."""
    baselines: Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]] = field(default=lambda _: {})
    """Of these nodes, what was measured before. Never fails."""
    record: Callable[[Sequence[Result]], None] = lambda _: None
    """Keeps what was measured now. Never fails."""


def about(round_: Round) -> str:
    """What a round looks at, in a few words, where it says so."""
    return str(getattr(round_, "what", "what lies between the nodes"))
