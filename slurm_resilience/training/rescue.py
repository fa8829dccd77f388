"""What is done about saves that fail: room is made for the next try, and a second place takes what can't wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import Terms
from slurm_resilience.commit.refusal import NO_ROOM
from slurm_resilience.training.facts import facts_of
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.room import RoomMaker, say_on_stderr
from slurm_resilience.training.second_place import NotStaged, SecondPlace, Staged

FAILURES = 2
"""So many in a row, and the second place takes the next state of a periodic save."""
_REST = 10
"""So many times as long as that took, nothing periodic goes there again: the training waits for it."""


class Rescue:
    """One for all savers of a rank. Called by all ranks, except where it says otherwise."""

    def __init__(
        self, ranks: Ranks, clock: Clock, *, room: RoomMaker | None = None, second: SecondPlace | None = None
    ) -> None:
        """`room` is rank 0's. Without `second` there is nowhere else to go."""
        self._ranks = ranks
        self._clock = clock
        self._room = room
        self._second = second
        self._failures = 0
        self._rested_s = 0.0

    @property
    def has_second_place(self) -> bool:
        return self._second is not None

    def refused(self, numbers: Iterable[int | None]) -> None:
        """On rank 0 alone, while the others wait: a save was refused by these errnos. Never raises."""
        number = next((each for each in numbers if each in NO_ROOM), None)
        if number is not None and self._room is not None:
            self._room.make_room(number)

    def saved(self) -> None:
        """A save has succeeded. Raises Fenced and PeersGone."""
        self._failures = 0
        if self._room is not None:
            self._room.saved()
        if self._second is not None:
            self._second.superseded()

    def failed(self) -> None:
        self._failures += 1

    def due(self) -> bool:
        """Whether a periodic save should go to the second place now."""
        if self._second is None or self._failures < FAILURES:
            return False
        rested: bool = self._ranks.broadcast(self._clock.monotonic_s() >= self._rested_s)
        return rested

    def stage(self, terms: Terms, state: Mapping[str, Any], number: int | None) -> Path | None:
        """Where `state` is durable now, after the run directory refused it with errno `number`. None: nowhere.

        Raises Fenced and PeersGone.
        """
        if self._second is None:
            return None
        began_s = self._clock.monotonic_s()
        self._say(self._second.alarm(number))
        outcome = self._second.stage(terms, state, facts_of(terms.step, terms.attempt, terms.world_size))
        now_s = self._clock.monotonic_s()
        self._rested_s = now_s + _REST * (now_s - began_s)
        match outcome:
            case Staged(checkpoint, where):
                self._failures = 0
                self._say(f"{checkpoint} is staged in {where}: a next start can go on from there")
                return where
            case NotStaged(why):
                self._say(f"the second place refused it, too: {why}")
                return None

    def _say(self, sentence: str) -> None:
        if self._ranks.rank == 0:
            say_on_stderr(sentence)
