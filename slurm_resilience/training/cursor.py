"""Where in its loops a training stands, and where it has to get back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Position:
    """After a completed step."""

    step: int = 0
    """Steps completed since the start of the run."""
    epoch: int = 0
    """Of `run.epochs`; 0 without it."""
    section: int = 0
    """Which loop over `run.batches` or `run.steps` within the epoch, the first being 0."""
    item: int = 0
    """Items of that loop that have become steps."""
    total: int = 0
    """What the outermost loop counts to; 0 where it doesn't count."""
    stage: int | None = None
    """Which part of the program: 0 before its first `run.epochs`, 1 in it, 2 behind it, 3 in the second one, and so on.
    None: nobody has written it down."""

    def to_state(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Position:
        return cls(**{name: int(value) for name, value in state.items()})


@dataclass(frozen=True, slots=True)
class Entry:
    """How a section begins."""

    item: int
    """So many of its items are done."""
    resumed: bool
    """It is the one that the checkpoint was saved in."""


class Cursor:
    """Counts. On the way back to a position, whole epochs and sections before it are passed over."""

    def __init__(self) -> None:
        self.step = 0
        self.epoch = 0
        self.total = 0
        self._stage = 0
        self._section = -1
        self._item = 0
        self._back_to: Position | None = None
        self._finished = False
        self._step_open = False

    def return_to(self, position: Position, *, finished: bool) -> None:
        """Before the loops start. `finished`: the training had come to its own end there."""
        self._back_to = position
        self._finished = finished
        self.step = position.step
        self.epoch = position.epoch

    def first_epoch(self, count: int) -> int:
        """From where `run.epochs(count)` counts; `count` itself where nothing is left to do."""
        self.total = count
        self._stage += 1 if self._stage % 2 == 0 else 2
        self._forget_if_passed()
        back_to = self._back_to
        if back_to is None:
            return 0
        if self._still_before(back_to):
            return count
        if self._finished and count <= back_to.total:
            self._back_to = None
            return count
        return min(count, back_to.epoch)

    def enter_epoch(self, epoch: int) -> None:
        back_to = self._back_to
        if back_to is not None and self._still_before(back_to):
            return
        if back_to is not None and epoch > back_to.epoch:
            self._back_to = None  # its sections never came: the loop has changed
        self.close_step()
        self.epoch = epoch
        self._section = -1
        self._item = 0

    def enter_section(self, count: int | None, *, outermost: bool) -> Entry | None:
        """How the next section begins; None: it is over already.

        `outermost`: it doesn't run inside of `run.epochs`.
        """
        self.close_step()
        if outermost and self._stage % 2:
            self._stage += 1
            self._section = -1
            self._forget_if_passed()
        self._section += 1
        self._item = 0
        if outermost:
            self.total = count or 0
        back_to = self._back_to
        if back_to is None:
            return Entry(0, resumed=False)
        if self._still_before(back_to) or self._section < back_to.section:
            return None
        if outermost and self._finished and self._section == back_to.section and (not count or count <= back_to.total):
            self._item = back_to.item
            return None
        self._back_to = None
        behind_the_last_epoch = self._finished and not outermost and back_to.item == 0
        if self._section > back_to.section or behind_the_last_epoch:
            return Entry(0, resumed=False)
        self._item = back_to.item
        return Entry(back_to.item, resumed=True)

    def _still_before(self, back_to: Position) -> bool:
        return back_to.stage is not None and self._stage < back_to.stage

    def _forget_if_passed(self) -> None:
        if self._back_to is not None and self._back_to.stage is not None and self._stage > self._back_to.stage:
            self._back_to = None

    def go_on_at(self, item: int) -> None:
        """In the section just entered: so many of its items are done, as they are dealt now."""
        self._item = item

    @property
    def item(self) -> int:
        return self._item

    def open_step(self) -> None:
        """An item is handed out."""
        self._step_open = True

    def close_step(self) -> None:
        """The item handed out has become a step: the loop asks for the next one, or has been left by `break`."""
        if self._step_open:
            self._step_open = False
            self.step += 1
            self._item += 1

    def position(self) -> Position:
        return Position(self.step, self.epoch, max(0, self._section), self._item, self.total, self._stage)
