"""What several scenes have in common."""

from __future__ import annotations

from tests.failures.record_expect import Expect

LONG = "--steps=600"
EACH_NODE = "--output={folder}/train-%j-node%n.out"
"""Kept as %N would name it: here %N is this machine's name on every node."""
EACH_TASK = "--output={folder}/task-%t.out"
GONE = "SIGKILL|[Kk]illed"
"""How a killed process is told of."""


def crash(says: str, rank: int | None, node: str | None, retry: str | None = None) -> Expect:
    return Expect("CRASHED", says, rank, node, retry)


def everywhere(says: str, cause: str = "CRASHED") -> Expect:
    """A mistake in the program or in how it was started: all ranks meet it, whenever they are started."""
    return Expect(cause, says, retry="USELESS", everywhere=True)
