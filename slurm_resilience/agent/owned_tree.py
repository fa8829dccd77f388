"""The agent's side of its tree: what it spares, how long it tries."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.agent.child import Child
from slurm_resilience.agent.process_tree import Process, kill_tree, tree

KILL_S = 10.0


class OwnedTree:
    """Everything that the agent started, without the guardian."""

    def __init__(self, marker: str, runtime: Path, guardian: int, child: Child) -> None:
        self.runtime = runtime
        self.guardian = guardian
        self._marker = marker
        self._child = child

    def left(self) -> list[Process]:
        self._child.reap()
        return tree(os.getpid(), self._marker, self._spared)

    def kill(self) -> int:
        """Returns how many could not be killed."""
        return kill_tree(os.getpid(), self._marker, self._spared, seconds=KILL_S, reap=self._child.reap)

    @property
    def _spared(self) -> frozenset[int]:
        return frozenset({self.guardian})
