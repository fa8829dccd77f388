"""How far from its beginning a file is there, while batches of it become ready in any order. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Front:
    """Everything before `reached` belongs to batches that are done. It only rises, and reaches `end` with the last one.

    A batch may have its bytes in many places: only where they begin matters, since nothing behind that is promised
    before the batch is done.
    """

    def __init__(self, starts: Sequence[int], end: int) -> None:
        """`starts[i]` is where batch i's first byte lies. Ascending."""
        self._starts = [*starts, end]
        if self._starts != sorted(self._starts):
            raise ValueError("batches are numbered by where they begin")
        self._done = [False] * len(starts)
        self._lowest_open = 0

    @property
    def reached(self) -> int:
        return self._starts[self._lowest_open]

    def done(self, batch: int) -> int:
        """Batch number `batch` is there. Returns `reached`."""
        self._done[batch] = True
        while self._lowest_open < len(self._done) and self._done[self._lowest_open]:
            self._lowest_open += 1
        return self.reached
