"""Who is behind, missing or does something else, by what the ranks had recorded of their collectives. Pure.

Within a process group every rank must come to the same collective with the same number. Whoever hasn't come to it when
the others have is behind; whoever came with another kind, size or type of data has another program or another branch of
it; whoever left no dump at all is the first suspect: it could not write one.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PER_RANK_SIZES = ("scatter", "gather", "all_to_all", "split", "barrier", "_v")
"""Of these the ranks' sizes may differ."""
_NO_COMMON_ORDER = ("send", "recv", "coalesced")


class Trouble(enum.Enum):
    MISMATCH = "does something else"
    BEHIND = "is behind"
    MISSING = "left no dump"


@dataclass(frozen=True, slots=True)
class Collective:
    """One entry of a dump."""

    group: str
    """`0:default_pg`: a name that is the same on all ranks, with its description."""
    seq: int
    """Its number within the group."""
    name: str
    """`all_reduce`."""
    state: str
    """`scheduled`, `started` or `completed`."""
    sizes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    time_s: float | None = None
    where: str | None = None
    """`train.py:31 in step`: the user's own line that called it."""
    p2p: bool = False

    def __str__(self) -> str:
        shape = " ".join("×".join(map(str, size)) or "a number" for size in self.sizes)
        data = f" of {shape} {'/'.join(dict.fromkeys(self.types))}" if shape else ""
        return f"{self.name}{data}"


@dataclass(frozen=True, slots=True)
class Dump:
    rank: int
    file: str
    version: str
    entries: tuple[Collective, ...]
    members: Mapping[str, frozenset[int]]
    """Of each group, where the dump says so."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The first suspect, and in what."""

    ranks: tuple[int, ...]
    trouble: Trouble
    sentence: str
    file: str
    """Of the dump to look at."""
    group: str | None = None
    seq: int | None = None


def who_is_behind(dumps: Sequence[Dump], world_size: int | None = None) -> Behind | None:
    """None: as far as the dumps reach, all ranks did the same."""
    if not dumps:
        return None
    by_group: dict[str, dict[int, dict[int, Collective]]] = defaultdict(dict)
    for dump in sorted(dumps, key=lambda dump: dump.rank):
        for entry in dump.entries:
            if not entry.p2p and not entry.name.startswith(_NO_COMMON_ORDER):
                by_group[entry.group].setdefault(dump.rank, {})[entry.seq] = entry
    found = [
        *(_mismatch(group, by_rank, dumps) for group, by_rank in sorted(by_group.items())),
        *(_behind(group, by_rank, dumps) for group, by_rank in sorted(by_group.items())),
    ]
    told = [one for one in found if one is not None]
    mismatch = next((one for one in told if one.trouble is Trouble.MISMATCH), None)
    return mismatch or _missing(dumps, world_size) or next(iter(told), None)


def _missing(dumps: Sequence[Dump], world_size: int | None) -> Behind | None:
    expected: set[int] = set(range(world_size)) if world_size is not None else set()
    for dump in dumps:
        for members in dump.members.values():
            expected |= members
    missing = tuple(sorted(expected - {dump.rank for dump in dumps}))
    if not missing or len(missing) > len(expected) // 2:
        return None  # the dumps of most are not here: that says nothing about anybody
    who = ranks_text(missing)
    sentence = f"{who} left no flight recorder dump, {len(dumps)} others did: a rank that hangs or is gone writes none"
    return Behind(missing, Trouble.MISSING, sentence, dumps[0].file)


def _mismatch(group: str, by_rank: Mapping[int, Mapping[int, Collective]], dumps: Sequence[Dump]) -> Behind | None:
    """The first collective to which ranks came with different things. Each dump is a ring: its beginning is lost."""
    for seq in sorted({seq for entries in by_rank.values() for seq in entries}):
        came = {rank: entries[seq] for rank, entries in by_rank.items() if seq in entries}
        if len(came) < 2:
            continue
        shapes = {rank: _shape(entry) for rank, entry in came.items()}
        votes = Counter(shapes.values())
        if len(votes) == 1:
            continue
        usual, count = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
        odd = tuple(sorted(rank for rank, shape in shapes.items() if shape != usual))
        like = next(entry for rank, entry in sorted(came.items()) if shapes[rank] == usual)
        other = came[odd[0]]
        others = "the others" if count > 1 else ranks_text(tuple(sorted(set(came) - set(odd))))
        place = "" if other.where is None else f" ({other.where})"
        sentence = f"at collective {seq} of group {group} {ranks_text(odd)} called {other}{place}, {others} {like}"
        return Behind(odd, Trouble.MISMATCH, sentence, _file(dumps, odd[0]), group, seq)
    return None


def _shape(entry: Collective) -> tuple[str, tuple[tuple[int, ...], ...], tuple[str, ...]]:
    if any(word in entry.name for word in _PER_RANK_SIZES):
        return entry.name, (), ()
    return entry.name, entry.sizes, entry.types


def _behind(group: str, by_rank: Mapping[int, Mapping[int, Collective]], dumps: Sequence[Dump]) -> Behind | None:
    came_to = {rank: max(entries) for rank, entries in by_rank.items() if entries}
    for dump in dumps:  # who has come to no collective of a group in which it is, while others wait there
        if dump.rank in dump.members.get(group, frozenset()):
            came_to.setdefault(dump.rank, 0)
    if len(came_to) < 2 or len(set(came_to.values())) == 1:
        return None
    furthest, least = max(came_to.values()), min(came_to.values())
    late = tuple(sorted(rank for rank, seq in came_to.items() if seq == least))
    waits = min(rank for rank, seq in came_to.items() if seq == furthest)
    last = by_rank.get(late[0], {}).get(least)
    after = "had called none" if last is None else f"had last called {least}, {last}"
    after += "" if last is None or last.where is None else f" ({last.where})"
    sentence = f"{ranks_text(late)} {after}, while rank {waits} waited in {furthest} of group {group}"
    return Behind(late, Trouble.BEHIND, sentence, _file(dumps, late[0]), group, furthest)


def _file(dumps: Sequence[Dump], rank: int) -> str:
    return next((dump.file for dump in dumps if dump.rank == rank), dumps[0].file)


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-2 and 7`: ranges for many."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"ranks {', '.join(words)}"
