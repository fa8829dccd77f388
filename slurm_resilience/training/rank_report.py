"""What this rank tells the node agent about itself: its page, at a cost of nearly nothing."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase

_LEAST_APART_S = 0.005


class RankReport:
    """Does nothing where there is no runtime folder (bare mode)."""

    def __init__(self, folder: Path | None, *, local_rank: int, clock: Clock) -> None:
        self._page = RankPageWriter(folder, local_rank) if folder is not None else None
        self._clock = clock
        self._local_rank = local_rank
        self._written_s = float("-inf")
        self.rank = 0
        self.saved_step = -1

    def do_without(self) -> None:
        """Before it is opened: there is no runtime folder after all."""
        self._page = None

    def open(self) -> None:
        if self._page is not None:
            self._page.open()
            self.say(RankPhase.STARTING, 0)

    def stepping(self, step: int) -> None:
        """At every boundary; steps shorter than a few milliseconds are told of every few milliseconds."""
        if self._page is not None:
            now_s = self._clock.monotonic_s()
            if now_s - self._written_s >= _LEAST_APART_S:
                self.say(RankPhase.STEPPING, step)

    def say(self, phase: RankPhase, step: int, *, stopped_after_step: int = -1) -> None:
        if self._page is None:
            return
        self._written_s = self._clock.monotonic_s()
        stopped, saved = stopped_after_step, self.saved_step
        self._page.write(
            RankPage(phase, self.rank, self._local_rank, os.getpid(), step, stopped, saved, self._written_s)
        )

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
