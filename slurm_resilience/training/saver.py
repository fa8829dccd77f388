"""Saving, all ranks together: every part durable first, then one line in the manifest."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from slurm_resilience.checkpoint.store import CheckpointStore, PartReceipt
from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import Terms
from slurm_resilience.commit.refusal import errno_of
from slurm_resilience.commit.verdict import diverged_ranks
from slurm_resilience.errors import (
    CheckpointUnavailable,
    CheckpointUnsupported,
    Fenced,
    ManifestError,
    ManifestUnavailable,
)
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.receipts import named
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointId,
    Record,
    SaveFailed,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.training.facts import facts_of
from slurm_resilience.training.outcome import NotSaved, Saved, first_known
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.rescue import FAILURES, Rescue

if TYPE_CHECKING:
    from slurm_resilience.training.loans import Loans

__all__ = ["NotSaved", "NotWritten", "Saved", "Saver", "Written"]

LEAST_RETRY_S = 1.0
MOST_RETRIES = 20


@dataclass(frozen=True, slots=True)
class Written:
    receipt: PartReceipt
    shared: str | None = None
    """As `Terms.shared`."""


@dataclass(frozen=True, slots=True)
class NotWritten:
    rank: int
    why: str
    kind: Literal["unavailable", "unsupported"]
    errno: int | None = None
    """The file system's, where it was the one that refused."""


@dataclass(frozen=True, slots=True)
class _Fenced:
    mine: int
    newest: int


@dataclass(frozen=True, slots=True)
class _Unsupported:
    why: str


_Outcome = Union[Saved, NotSaved, _Fenced, _Unsupported]


def remove(store: CheckpointStore, journal: Journal, checkpoint: CheckpointId) -> None:
    """Parts of a checkpoint that the manifest doesn't name and never will: other ranks have written or given up.

    Looked at, not taken for granted: an earlier try may have been committed by a writer that died behind the line, or
    an attempt after ours may have adopted it. Where nobody can say, the parts stay.
    """
    try:
        if Chain.of(journal.read()).checkpoint(checkpoint) is not None:
            return
        store.delete(checkpoint)
    except (CheckpointUnavailable, ManifestError) as error:
        sys.stderr.write(f"slurm-resilience: what was written of {checkpoint} stays for now: {error}\n")


class Saver:
    def __init__(
        self,
        *,
        ranks: Ranks,
        store: CheckpointStore,
        journal: Journal,
        attempt: int,
        clock: Clock,
        after_commit: Callable[[], None],
        loans: Loans | None = None,
        rescue: Rescue | None = None,
    ) -> None:
        """`after_commit` runs on rank 0 when a checkpoint has come into being; it must not raise.

        With `loans` a part leaves out what other ranks write, or its predecessor holds. `rescue` is what is done about
        saves that fail; without it they are told.
        """
        self._ranks = ranks
        self._store = store
        self._journal = journal
        self._attempt = attempt
        self._clock = clock
        self._after_commit = after_commit
        self._loans = loans
        self._rescue = rescue or Rescue(ranks, clock)

    def save(
        self, step: int, reason: SaveReason, state: Mapping[str, Any], *, metric: float | None = None
    ) -> Saved | NotSaved:
        """Called by all ranks after the same step; all get the same answer.

        Raises CheckpointUnsupported (on all ranks, where one has a value that can't be kept), Fenced, PeersGone.
        """
        started_s = self._clock.monotonic_s()
        checkpoint = checkpoint_id(step, self._attempt, final=reason is SaveReason.FINAL)
        written = self._write(checkpoint, step, state)
        everybody = self._ranks.gather(written)
        outcome: _Outcome | None = None
        if everybody is not None:
            outcome = self._judge(checkpoint, step, reason, everybody, started_s, metric)
        outcome = self._ranks.broadcast(outcome)
        if self._loans is not None:
            if isinstance(outcome, Saved) and isinstance(written, Written):
                self._loans.committed(checkpoint, written.receipt)
            else:
                self._loans.distrust()
        match outcome:
            case Saved():
                self._rescue.saved()
                return outcome
            case NotSaved():
                self._rescue.failed()
                # A save with a deadline is tried again first.
                if reason in (SaveReason.PERIODIC, SaveReason.ASKED) and self._rescue.due():
                    return self._elsewhere(outcome, step, reason, state, metric)
                return outcome
            case _Fenced(mine, newest):
                raise Fenced(mine, newest)
            case _Unsupported(why):
                raise CheckpointUnsupported(why)
            case _:
                raise TypeError(f"rank 0 sent {outcome!r} as the outcome of a save")

    def save_until(
        self,
        step: int,
        reason: SaveReason,
        state: Mapping[str, Any],
        *,
        deadline_s: float,
        metric: float | None = None,
    ) -> Saved | NotSaved:
        """As `save`, tried again as long as another try fits before `deadline_s` (rank 0's monotonic clock).

        After some, or when time is up, the second place gets the state, if there is one: it may be all there will be.
        """
        staged: Path | None = None
        for attempt in itertools.count():
            began_s = self._clock.monotonic_s()
            outcome = self.save(step, reason, state, metric=metric)
            if isinstance(outcome, Saved):
                return outcome
            now_s = self._clock.monotonic_s()
            pause_s = min(LEAST_RETRY_S * 1.5**attempt, 30.0)
            tries = 2 if staged is not None or not self._rescue.has_second_place else 4  # one there, one more here
            fits = now_s + pause_s + tries * (now_s - began_s) + LEAST_RETRY_S < deadline_s
            again = self._ranks.broadcast(fits and attempt < MOST_RETRIES)
            if staged is None and (not again or attempt + 1 >= FAILURES):
                staged = self._elsewhere(outcome, step, reason, state, metric).staged
            if not again:
                return outcome.but_staged(staged)
            self._clock.sleep(pause_s)
        raise AssertionError("a count has no end")

    def _elsewhere(
        self, refused: NotSaved, step: int, reason: SaveReason, state: Mapping[str, Any], metric: float | None
    ) -> NotSaved:
        checkpoint = checkpoint_id(step, self._attempt, final=reason is SaveReason.FINAL)
        terms = Terms(checkpoint, step, self._attempt, reason, self._ranks.world_size, metric=metric)
        return refused.but_staged(self._rescue.stage(terms, state, refused.errno))

    def _write(self, checkpoint: CheckpointId, step: int, state: Mapping[str, Any]) -> Written | NotWritten:
        facts = facts_of(step, self._attempt, self._ranks.world_size)
        rank = self._ranks.rank
        try:
            if self._loans is None:
                return Written(self._store.write_part(checkpoint, rank=rank, state=state, attributes=facts))
            return self._loans.write_part(checkpoint, state, facts)
        except CheckpointUnavailable as error:
            return NotWritten(rank, f"rank {rank}: {error}", "unavailable", errno_of(error))
        except CheckpointUnsupported as error:
            return NotWritten(rank, f"rank {rank}: {error}", "unsupported")

    def _judge(
        self,
        checkpoint: CheckpointId,
        step: int,
        reason: SaveReason,
        everybody: list[Written | NotWritten],
        started_s: float,
        metric: float | None,
    ) -> _Outcome:
        """On rank 0, when every rank has written or given up."""
        written = [said for said in everybody if isinstance(said, Written)]
        failures = [said for said in everybody if isinstance(said, NotWritten)]
        if not failures:
            seconds = self._clock.monotonic_s() - started_s
            diverged = next((said.receipt.rank for said in written if said.shared != written[0].shared), None)
            if diverged is None:
                return self._commit(checkpoint, step, reason, [said.receipt for said in written], seconds, metric)
            remove(self._store, self._journal, checkpoint)
            return self._failed(step, diverged_ranks(diverged))
        remove(self._store, self._journal, checkpoint)
        unsupported = next((failure for failure in failures if failure.kind == "unsupported"), None)
        if unsupported is not None:
            return _Unsupported(unsupported.why)
        return self._failed(step, failures[0].why, *[failure.errno for failure in failures])

    def _commit(
        self,
        checkpoint: CheckpointId,
        step: int,
        reason: SaveReason,
        receipts: list[PartReceipt],
        seconds: float,
        metric: float | None,
    ) -> _Outcome:
        parts = tuple(named(receipt) for receipt in receipts)
        committed = CheckpointCommitted(
            checkpoint,
            step,
            self._attempt,
            reason,
            self._ranks.world_size,
            parts,
            round(seconds, 3),
            metric=metric,
            stall_s=round(seconds, 4),
        )
        try:
            self._journal.append(committed, fence=self._attempt)
        except Fenced as fenced:
            remove(self._store, self._journal, checkpoint)
            return _Fenced(fenced.mine, fenced.newest)
        except ManifestUnavailable as error:
            if self._journal.holds(committed):
                return Saved(checkpoint, step, seconds)
            return self._failed(step, str(error), errno_of(error))
        except ManifestError as error:
            return self._failed(step, str(error))
        self._after_commit()
        return Saved(checkpoint, step, seconds)

    def _failed(self, step: int, why: str, *numbers: int | None) -> _Outcome:
        sys.stderr.write(f"slurm-resilience: the checkpoint of step {step} could not be saved: {why}\n")
        self._rescue.refused(numbers)
        return self._note(SaveFailed(self._attempt, step, why)) or NotSaved(why, first_known(numbers))

    def _note(self, record: Record) -> _Fenced | None:
        try:
            self._journal.append(record, fence=self._attempt)
        except Fenced as fenced:
            return _Fenced(fenced.mine, fenced.newest)
        except ManifestError as error:
            sys.stderr.write(f"slurm-resilience: and that could not be written down either: {error}\n")
        return None
