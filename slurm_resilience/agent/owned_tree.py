"""The agent's side of its tree: what it spares, how long it tries."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.agent.child import Child
from slurm_resilience.agent.process_tree import Process, kill_tree, tree
from slurm_resilience.signals.writer_page import busy_writers

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

    def writing(self) -> frozenset[int]:
        """Processes of the tree that are writing a checkpoint and survive the ranks for it."""
        said = busy_writers(self.runtime)
        return frozenset(process.pid for process in self.left() if process.pid in said) if said else frozenset()

    def kill(self, *, spare: frozenset[int] = frozenset()) -> int:
        """Returns how many could not be killed."""
        return kill_tree(os.getpid(), self._marker, self._spared | spare, seconds=KILL_S, reap=self._child.reap)

    @property
    def _spared(self) -> frozenset[int]:
        return frozenset({self.guardian})
