"""What a rank has for when there is no room, or no run directory to write to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.space.ballast import DEFAULT_CAP_BYTES
from slurm_resilience.checkpoint.space.room import room
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.clock import Clock
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.training.homecoming import Homecoming
from slurm_resilience.training.kept_ballast import KeptBallast
from slurm_resilience.training.look_ahead import LookAhead
from slurm_resilience.training.ranks import Ranks, on_rank_zero
from slurm_resilience.training.rescue import Rescue
from slurm_resilience.training.room import RoomMaker, needs_of
from slurm_resilience.training.second_place import SecondPlace


@dataclass(frozen=True, slots=True)
class RoomSettings:
    keep: Policy
    ballast_cap_bytes: int = DEFAULT_CAP_BYTES
    """0: no ballast is kept."""
    second_place: Path | None = None
    """A folder that exists, on the nodes or not. None: there is no second place."""


@dataclass(frozen=True, slots=True)
class RoomKeeping:
    """Made by `keep_room`; every verb is called by all ranks."""

    ranks: Ranks
    journal: Journal
    attempt: int
    clock: Clock
    maker: RoomMaker | None
    """Rank 0's."""
    ahead: LookAhead | None
    """Rank 0's."""
    second_place: Path | None
    """The same on all ranks."""

    def homecoming(self) -> Homecoming:
        return Homecoming(
            ranks=self.ranks,
            journal=self.journal,
            attempt=self.attempt,
            clock=self.clock,
            second_place=self.second_place,
            room=self.maker,
        )

    def rescue(self) -> Rescue:
        if self.second_place is None:
            return Rescue(self.ranks, self.clock, room=self.maker)
        second = SecondPlace(
            self.second_place,
            run_id=on_rank_zero(self.ranks, lambda: Chain.of(self.journal.read()).run_id),
            ranks=self.ranks,
            journal=self.journal,
            attempt=self.attempt,
            clock=self.clock,
        )
        second.look()
        return Rescue(self.ranks, self.clock, room=self.maker, second=second)

    def look_ahead(self, expected_bytes: int | None) -> None:
        """At the beginning. `expected_bytes`: what all ranks together will write, as far as anybody can say."""
        if self.ahead is not None:
            self.ahead.begin(None if expected_bytes is None else needs_of(expected_bytes, self.ranks.world_size))

    def before(self, after_commit: Callable[[], None]) -> Callable[[], None]:
        """What runs on rank 0 when a checkpoint has come into being: ours, then `after_commit`."""
        ahead = self.ahead
        if ahead is None:
            return after_commit

        def both() -> None:
            with self.journal.remembering():  # the training waits, and both read all of it
                ahead.after_commit()
                after_commit()

        return both


def keep_room(
    settings: RoomSettings, *, ranks: Ranks, journal: Journal, store: CheckpointStore, attempt: int, clock: Clock
) -> RoomKeeping:
    """Called by all ranks; rank 0's second place is everybody's."""
    second_place = ranks.broadcast(settings.second_place)
    if ranks.rank != 0:
        return RoomKeeping(ranks, journal, attempt, clock, None, None, second_place)
    folder = journal.run.checkpoints
    measure = partial(room, folder)
    ballast = KeptBallast(folder, cap_bytes=settings.ballast_cap_bytes, room=measure)
    maker = RoomMaker(
        journal=journal, store=store, attempt=attempt, policy=settings.keep, ballast=ballast, room=measure
    )
    ahead = LookAhead(journal=journal, policy=settings.keep, ballast=ballast, room=measure)
    return RoomKeeping(ranks, journal, attempt, clock, maker, ahead, second_place)
