"""Waiting for the words of all ranks, then the commit: done by rank 0's writer, or by whoever comes later."""

from __future__ import annotations

import contextlib
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import PartRefused, PartWord, WordUnreadable, hear, ranks_heard
from slurm_resilience.commit.refusal import errno_of
from slurm_resilience.commit.verdict import Complete, NeverWill, Waiting, judge
from slurm_resilience.errors import ManifestError
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointCommitted, CheckpointId

LOOK_S = 0.05
LONGEST_LOOK_S = 1.0
PATIENCE_S = 900.0
"""How long the last part may be behind the first. Who waits is killed earlier where the job's time is over."""
_APPEND_AGAIN_AFTER_S = (0.5, 2.0, 8.0)


def read_words(folder: Path, known: dict[int, PartWord]) -> None:
    """Add to `known` what lies in `folder` and wasn't. A word that can't be read is one that refuses."""
    for rank in sorted(ranks_heard(folder) - known.keys()):
        with contextlib.suppress(FileNotFoundError):
            known[rank] = _heard(folder, rank)


def _heard(folder: Path, rank: int) -> PartWord:
    try:
        return hear(folder, rank)
    except WordUnreadable as error:
        return PartRefused(CheckpointId(folder.name), rank, str(error))


class Gathering:
    """One checkpoint of `world_size` parts in `folder`, to be committed as attempt `fence`."""

    def __init__(self, journal: Journal, folder: Path, *, world_size: int, fence: int, clock: Clock) -> None:
        self._journal = journal
        self._folder = folder
        self._world_size = world_size
        self._fence = fence
        self._clock = clock
        self._words: dict[int, PartWord] = {}

    def look(self) -> Waiting | Complete | NeverWill:
        """What is known now. Commits nothing. A file system that doesn't answer leaves things as they were."""
        with contextlib.suppress(OSError):
            read_words(self._folder, self._words)
        return judge(self._words, self._world_size)

    def wait(self, patience_s: float = PATIENCE_S) -> Complete | NeverWill:
        end_s = self._clock.monotonic_s() + patience_s
        look_s = LOOK_S
        while True:
            seen = self.look()
            if not isinstance(seen, Waiting):
                return seen
            if self._clock.monotonic_s() >= end_s:
                who = ", ".join(str(rank) for rank in sorted(seen.missing)[:8])
                return NeverWill(f"no word came from rank {who} within {patience_s:.0f} s")
            self._clock.sleep(look_s)
            look_s = min(look_s * 1.2, LONGEST_LOOK_S)

    def commit(self, committed: CheckpointCommitted) -> NeverWill | None:
        """None: the manifest says so now. Raises Fenced. A journal that says no is asked again, for a while."""
        for pause_s in _APPEND_AGAIN_AFTER_S:
            if self._append(committed) is None:
                return None
            self._clock.sleep(pause_s)
        return self._append(committed)

    def _append(self, committed: CheckpointCommitted) -> NeverWill | None:
        try:
            self._journal.append(committed, fence=self._fence)
        except ManifestError as error:
            return None if self._journal.holds(committed) else NeverWill(str(error), errno_of(error))
        return None
