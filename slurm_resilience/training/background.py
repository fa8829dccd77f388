"""Saves that the training doesn't wait for: a snapshot in memory, then the writer process, then the manifest."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import PartRefused, Terms, refuse
from slurm_resilience.commit.refusal import errno_of
from slurm_resilience.errors import CheckpointError, CheckpointUnsupported, Fenced, ManifestError
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointId, SaveFailed, SaveReason, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.outcome import NotSaved, Saved, first_known
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.rescue import Rescue


@dataclass(frozen=True, slots=True)
class PartDone:
    """This rank's writer has nothing left to do: on rank 0 that means committed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PartFailed:
    why: str
    errno: int | None = None
    """The file system's, where it was the one that refused."""


class Writing(Protocol):
    """A rank's snapshot and its writer: what a save in the background needs of them."""

    def begin(self, checkpoint: CheckpointId, state: Mapping[str, Any], terms: Terms, *, began_s: float) -> float:
        """Take the snapshot and hand it over; how long the training stood still, in seconds.

        Raises CheckpointUnsupported and CheckpointUnavailable: then nothing is in flight.
        """

    def poll(self) -> PartDone | PartFailed | None:
        """None: not yet."""

    def wait(self, timeout_s: float) -> PartDone | PartFailed | None: ...

    def settled(self, *, saved: bool) -> None:
        """All ranks know what became of it."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Begun:
    checkpoint: CheckpointId
    step: int
    began_s: float


@dataclass(frozen=True, slots=True)
class _FencedOut:
    mine: int
    newest: int


class BackgroundSaver:
    """`begin` and `finish` are called by all ranks after the same step, in turns."""

    def __init__(
        self,
        *,
        ranks: Ranks,
        run: RunDirectory,
        journal: Journal,
        attempt: int,
        clock: Clock,
        writing: Writing,
        after_commit: Callable[[], None],
        remove: Callable[[CheckpointId], None],
        rescue: Rescue | None = None,
    ) -> None:
        """`after_commit` and `remove` (see saver.py) run on rank 0, and must not raise. `rescue`: see Saver."""
        self._ranks = ranks
        self._run = run
        self._journal = journal
        self._attempt = attempt
        self._clock = clock
        self._writing = writing
        self._after_commit = after_commit
        self._remove = remove
        self._rescue = rescue or Rescue(ranks, clock)
        self._begun: _Begun | None = None
        self._outcome: PartDone | PartFailed | None = None
        self._instead: NotSaved | None = None
        """The second place has the state, and nobody tries to write it here."""
        self._refused: NotSaved | None = None
        self.stall_s = 0.0
        """How long the training stood still for the last save."""

    @property
    def in_flight(self) -> bool:
        return self._begun is not None

    @property
    def step(self) -> int | None:
        """Of the save in flight."""
        return None if self._begun is None else self._begun.step

    def begin(self, step: int, reason: SaveReason, state: Mapping[str, Any], *, metric: float | None = None) -> None:
        """Returns when `state` may change again. Never raises for what the storage does: `finish` tells.

        After failures, the second place may take `state` at once, and the training waits for that. Raises
        CheckpointUnsupported for a value that can't be kept, and Fenced.
        """
        if self._begun is not None:
            raise ValueError(f"the save of step {self._begun.step} is still in flight")
        checkpoint = checkpoint_id(step, self._attempt, final=reason is SaveReason.FINAL)
        terms = Terms(checkpoint, step, self._attempt, reason, self._ranks.world_size, metric=metric)
        self._begun = _Begun(checkpoint, step, self._clock.monotonic_s())
        self._outcome = None
        self._instead = self._elsewhere(terms, state)
        if self._instead is not None:
            self.stall_s = self._clock.monotonic_s() - self._begun.began_s
            return
        try:
            self.stall_s = self._writing.begin(checkpoint, state, terms, began_s=self._clock.now_s())
        except CheckpointUnsupported as error:
            self._give_up(PartFailed(str(error)))
            raise
        except CheckpointError as error:
            self._give_up(PartFailed(str(error), errno_of(error)))

    def done_here(self) -> bool:
        """Whether nothing is left to do for this rank. Cheap."""
        if self._instead is not None:
            return True
        if self._outcome is None:
            self._hear(self._writing.poll())
        return self._outcome is not None

    def finish(self, *, deadline_s: float = math.inf) -> Saved | NotSaved:
        """What became of it: the same answer on all ranks. Waits where this rank isn't done, until `deadline_s`.

        Raises Fenced and PeersGone.
        """
        begun = self._begun
        assert begun is not None
        if self._instead is not None:
            self._begun = None
            return self._instead
        if self._outcome is None:
            self._hear(self._writing.wait(max(0.0, deadline_s - self._clock.monotonic_s())))
        everybody = self._ranks.gather(self._outcome)
        said = None if everybody is None else self._judge(begun, everybody)
        self._begun = None
        answer: Saved | NotSaved | _FencedOut = self._ranks.broadcast(said)
        self._writing.settled(saved=isinstance(answer, Saved))
        if isinstance(answer, _FencedOut):
            raise Fenced(answer.mine, answer.newest)
        if isinstance(answer, Saved):
            self._rescue.saved()
        else:
            self._rescue.failed()
            self._refused = answer
        return answer

    def close(self) -> None:
        self._writing.close()

    def _elsewhere(self, terms: Terms, state: Mapping[str, Any]) -> NotSaved | None:
        """None: it is tried here."""
        if self._refused is None or not self._rescue.due():
            return None
        where = self._rescue.stage(terms, state, self._refused.errno)
        return None if where is None else self._refused.but_staged(where)

    def _hear(self, outcome: PartDone | PartFailed | None) -> None:
        if isinstance(outcome, PartFailed):
            self._give_up(outcome)
        else:
            self._outcome = outcome

    def _give_up(self, failed: PartFailed) -> None:
        """Say so where rank 0's writer looks: it is not to wait for us."""
        assert self._begun is not None
        self._outcome = failed
        refused = PartRefused(self._begun.checkpoint, self._ranks.rank, failed.why, failed.errno)
        try:
            refuse(self._run.checkpoints / self._begun.checkpoint, refused)
        except OSError as error:
            sys.stderr.write(f"slurm-resilience: rank {self._ranks.rank} can't even say that it has failed: {error}\n")

    def _judge(self, begun: _Begun, everybody: list[PartDone | PartFailed | None]) -> Saved | NotSaved | _FencedOut:
        """On rank 0, whose own outcome says whether the manifest names it; its writer may have died behind the line."""
        chain = None if isinstance(everybody[0], PartDone) else self._told()
        if isinstance(everybody[0], PartDone) or (chain is not None and self._is_ours(begun.checkpoint, chain)):
            self._after_commit()
            return Saved(begun.checkpoint, begun.step, self._clock.monotonic_s() - begun.began_s)
        failures = [(rank, said.why) for rank, said in enumerate(everybody) if isinstance(said, PartFailed)]
        # Rank 0 fails whenever another does, because it can't commit: theirs is the reason.
        rank, why = next(iter([*failures[1:], *failures]), (0, "it was not written in time"))
        text = why if why.startswith("rank ") else f"rank {rank}: {why}"
        sys.stderr.write(f"slurm-resilience: the checkpoint of step {begun.step} could not be saved: {text}\n")
        if all(said is not None for said in everybody):  # nobody writes any more
            self._remove(begun.checkpoint)
        numbers = [said.errno for said in everybody if isinstance(said, PartFailed)]
        self._rescue.refused(numbers)
        try:
            self._journal.append(SaveFailed(self._attempt, begun.step, text), fence=self._attempt)
        except Fenced as fenced:
            return _FencedOut(fenced.mine, fenced.newest)
        except ManifestError as error:
            sys.stderr.write(f"slurm-resilience: and that could not be written down either: {error}\n")
        return NotSaved(text, first_known(numbers), late=any(said is None for said in everybody))

    def _told(self) -> Chain | None:
        """None: nobody can say."""
        try:
            return Chain.of(self._journal.read())
        except ManifestError:
            return None

    def _is_ours(self, checkpoint: CheckpointId, chain: Chain) -> bool:
        """Whether it is committed, and by us: a ghost whose checkpoint was adopted has to learn that it is one."""
        newest, found = chain.newest_attempt, chain.checkpoint(checkpoint)
        is_live = found is not None and found.state is CheckpointState.LIVE
        return is_live and (newest is None or newest.number <= self._attempt)
