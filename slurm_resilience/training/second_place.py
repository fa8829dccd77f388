"""Parts that the run directory refused, put where they outlive this job: all ranks together, each its own part.

    SECOND/<run id>/checkpoints/<checkpoint>/rank-00003.h5        whole by itself: nothing is borrowed
    SECOND/<run id>/checkpoints/<checkpoint>/rank-00003.receipt   this rank's word, as in the run directory

A checkpoint there is staged: it exists once an attempt has brought it to the run directory (`homecoming`).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.space.leftovers import Found, leftovers
from slurm_resilience.checkpoint.tiers.fallback import Candidate, second_place
from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import PartWritten, Terms, say
from slurm_resilience.durable_file import make_directory_durably
from slurm_resilience.errors import CheckpointError, ManifestError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointForgotten, CheckpointId, CheckpointStaged
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.ranks import Ranks, on_rank_zero
from slurm_resilience.training.room import say_on_stderr


def root_in(place: Path, run_id: str) -> Path:
    """What lies there is laid out as a run directory."""
    return place / run_id


@dataclass(frozen=True, slots=True)
class Staged:
    checkpoint: CheckpointId
    where: Path
    """The second place, as it was given."""


@dataclass(frozen=True, slots=True)
class NotStaged:
    why: str


class SecondPlace:
    """Every verb is called by all ranks, and answers the same on all. Raises Fenced and PeersGone, nothing else."""

    def __init__(self, place: Path, *, run_id: str, ranks: Ranks, journal: Journal, attempt: int, clock: Clock) -> None:
        self._place = place
        self._root = root_in(place, run_id)
        self._store = Hdf5Store(self._root)
        self._ranks = ranks
        self._journal = journal
        self._attempt = attempt
        self._clock = clock
        self._staged: list[CheckpointId] = []
        self._swept = False

    def look(self) -> None:
        """At the beginning: say on which ranks it isn't there, while somebody can still do something about it."""
        try:
            there = self._place.is_dir()
        except OSError:
            there = False
        everybody: list[bool] = self._ranks.all_gather(there)
        missing = ", ".join(str(rank) for rank, here in enumerate(everybody) if not here)
        if missing and self._ranks.rank == 0:
            say_on_stderr(
                f"the second place {self._place} is no folder where rank {missing} runs: nothing can go there"
            )

    def alarm(self, number: int | None) -> str:
        """That the run directory refused with errno `number`, and where the parts go now."""
        refused = Candidate("the run directory", str(self._journal.run.path), True, None)
        here = Candidate("the second place", str(self._place), True, None)
        return second_place(refused, number, [here], save_bytes=0).alarm

    def stage(self, terms: Terms, state: Mapping[str, Any], facts: Mapping[str, Any]) -> Staged | NotStaged:
        """Make `state` durable there, whole. What this attempt staged before goes once it is."""
        if self._staged[-1:] == [terms.checkpoint]:
            return Staged(terms.checkpoint, self._place)
        refused = [said for said in self._ranks.all_gather(self._write(terms, state, facts)) if said is not None]
        if refused:
            self._delete(terms.checkpoint)
            return NotStaged(refused[0])
        on_rank_zero(self._ranks, lambda: self._write_down(terms))
        if not self._let_go(self._staged, "a newer one is staged"):
            self._staged.append(terms.checkpoint)
            return Staged(terms.checkpoint, self._place)
        self._staged = [terms.checkpoint]
        return Staged(terms.checkpoint, self._place)

    def superseded(self) -> None:
        """A checkpoint of this attempt is durable: what is staged, by this attempt and those before, is of no use."""
        if self._swept and not self._staged:
            return
        if not self._let_go([*self._staged, *self._of_attempts_before()], "a newer one is durable"):
            return
        self._staged, self._swept = [], True
        for folder in (RunDirectory(self._root).checkpoints, self._root):
            with contextlib.suppress(OSError):  # somebody else's files, or nothing there at all
                folder.rmdir()

    def _write(self, terms: Terms, state: Mapping[str, Any], facts: Mapping[str, Any]) -> str | None:
        """What stood in the way."""
        rank, began_s = self._ranks.rank, self._clock.monotonic_s()
        try:
            if not self._place.is_dir():  # not mounted: making it anew would hide that
                raise FileNotFoundError(errno.ENOENT, "no such folder", str(self._place))
            make_directory_durably(self._root)
            receipt = self._store.write_part(terms.checkpoint, rank=rank, state=state, attributes=facts)
            seconds = self._clock.monotonic_s() - began_s
            say(self._folder(terms.checkpoint), PartWritten(terms, receipt, seconds, stall_s=seconds))
        except CheckpointError as error:
            return f"rank {rank}: {error}"
        except OSError as error:
            return f"rank {rank}: {error.filename or self._root}: {error.strerror or error}"
        return None

    def _write_down(self, terms: Terms) -> None:
        staged = CheckpointStaged(terms.checkpoint, terms.step, self._attempt, terms.world_size, str(self._place))
        try:
            self._journal.append(staged, fence=self._attempt)
        except ManifestError as error:
            say_on_stderr(
                f"{terms.checkpoint} is staged in {self._place}, and the manifest can't be told: {error}; "
                "the next start finds it if it is given the same second place"
            )

    def _let_go(self, checkpoints: list[CheckpointId], why: str) -> bool:
        """False: the manifest can't forget them for now, so they stay."""
        everybody = sorted({each for said in self._ranks.all_gather(checkpoints) for each in said})
        if not on_rank_zero(self._ranks, lambda: self._forget(everybody, why)):
            return False
        for checkpoint in checkpoints:
            self._delete(checkpoint)
        return True

    def _forget(self, checkpoints: list[CheckpointId], why: str) -> bool:
        """Of those that are durable as well the manifest has to forget nothing."""
        try:
            with self._journal.writing() as writer:
                staged = {each.record.checkpoint for each in Chain.of(writer.lines()).staged if not each.durable}
                gone = [CheckpointForgotten(each, why) for each in checkpoints if each in staged]
                writer.append(*gone, fence=self._attempt)
        except ManifestError as error:
            say_on_stderr(f"what is staged stays for now: {error}")
            return False
        return True

    def _of_attempts_before(self) -> list[CheckpointId]:
        try:
            found = self._store.found_on_disk()
        except CheckpointError:
            return []
        old = leftovers([Found(name, 0) for name in found], named=set(), attempt=self._attempt)
        return [CheckpointId(each.checkpoint) for each in old]

    def _delete(self, checkpoint: CheckpointId) -> None:
        try:
            self._store.delete(checkpoint)
        except CheckpointError as error:
            say_on_stderr(f"what is staged of {checkpoint} stays for now: {error}")

    def _folder(self, checkpoint: CheckpointId) -> Path:
        return RunDirectory(self._root).checkpoints / checkpoint
