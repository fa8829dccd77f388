"""What a round is: something that the nodes of a job do at one time, to find out about what lies between them.

The conductor gives each node its assignment and hears each one's answer over Slurm's own channel, the step's standard
input and output, so that neither the network between the nodes nor their storage has to work for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.result import Result


@dataclass(frozen=True, slots=True)
class Card:
    """How a node introduces itself, once, at the beginning."""

    task: int
    """The number of its process in the step: the conductor's name for it."""
    node: str
    host: str
    """What it calls itself."""
    addresses: tuple[str, ...]
    """Its own, but for the loopback's; of the interface that was named, where one was."""
    ports: tuple[int, ...]
    """Where its echo listens: one in the range of the rendezvous, one that the kernel has chosen."""
    boot_id: str
    cpus: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node says at the end of its part of a round."""

    values: Mapping[str, Any] | None
    """JSON values; None: it failed, hung or died."""
    trouble: str | None = None
    """Why there are none: `timed out after 5 s, while connecting to n3:15412`."""
    took_s: float | None = None


NodeFunction = Callable[[Context, Mapping[str, Any], Tell], Mapping[str, Any]]
"""A node's part, in a process of its own: (context, assignment, tell) to the answer's values."""


class Round(Protocol):
    """Pure, on the conductor's side."""

    @property
    def name(self) -> str: ...

    @property
    def function(self) -> str:
        """`module:name` of the NodeFunction."""
        ...

    @property
    def timeout_s(self) -> float: ...

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        """By task; a node that is not in it does nothing. Empty: there is nothing to find out."""
        ...

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]: ...

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        """Another one, made of what came out (other pairs, say). None: that was all."""
        ...
