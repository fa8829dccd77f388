"""What belongs to a rank, and not to the training, for ranks that are not those which saved.

That is its random numbers and its way through the data. Where in the data to go on can be said only when the loop, and
with it the loader, is there: see dealing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.shelf import Leaf
from slurm_resilience.checkpoint.distributed.tree import replaced
from slurm_resilience.training.dealing import Dealing
from slurm_resilience.training.random_state import GENERATORS
from slurm_resilience.training.source import CountedSource

_EACH_UP_TO = 16
"""So many ranks are looked at one by one, and then always twice as far: a thousand heads are a lot to read."""


def for_other_ranks(state: dict[str, Any], shelf: PartsShelf, *, step: int, saved_by: int, rank: int) -> None:
    """Change `state`, put together from the parts of `saved_by` ranks, for `rank` of another number."""
    state["random"] = {"reseed": {"step": step, **_numbers(shelf, saved_by, rank)}}
    state["gradient_buckets"] = {}  # sums over other ranks are rounded otherwise in any case
    data = dict(state.get("data") or {})  # of a later format, which is refused in a moment, perhaps none
    if data.get("kind") != CountedSource.__name__:
        data.pop("kept", None)
    state["data"] = {"dealing": Dealing(saved_by).to_state(), **data}


def _numbers(shelf: PartsShelf, saved_by: int, rank: int) -> dict[str, int]:
    """By which numbers this rank is to be seeded: each by its own, or alike where those that saved were alike.

    Ranks that compute the same thing together must go on doing so, in their dropout and in which layers they skip.
    """
    numbers = {}
    for kind in GENERATORS:
        alike = _alike(shelf, kind, saved_by)
        numbers[kind] = 0 if 1 < saved_by == alike else rank // alike
    return numbers


def _alike(shelf: PartsShelf, kind: str, saved_by: int) -> int:
    """How many ranks in a row, from the first on, had the same random numbers."""
    first = _content(shelf, 0, kind)
    if first is None:
        return 1
    return next((other for other in _looked_at(saved_by) if _content(shelf, other, kind) != first), saved_by)


def _looked_at(saved_by: int) -> Iterator[int]:
    yield from range(1, min(saved_by, _EACH_UP_TO))
    other = _EACH_UP_TO
    while other < saved_by:
        yield other
        other *= 2


def _content(shelf: PartsShelf, rank: int, kind: str) -> Any:
    """Equal for ranks whose next numbers are equal. None: it had none."""
    kept = replaced(
        shelf.skeleton(rank).get("random") or {},
        lambda _, leaf: shelf.entry_of(leaf).checksum if isinstance(leaf, Leaf) else leaf,
    )
    if kind not in kept:
        return None
    # A rank knows the generators of all devices that it sees, and uses its own: the others' have not moved.
    return kept[kind], sorted(kept.get("cuda", ())) if kind == "torch" else None
