"""Which rank fetches which part of a staged checkpoint, from where. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_resilience.commit.adoption import candidates, place_in_line
from slurm_resilience.manifest.chain import Chain


@dataclass(frozen=True, slots=True)
class Sighting:
    """A folder of staged parts, as one rank sees it."""

    parts: frozenset[int]
    """The ranks whose word lies there."""
    world_size: int
    """How many there are in all, by one of these words."""


Seen = Mapping[tuple[str, str], Sighting]
"""What one rank sees, by place and checkpoint."""


@dataclass(frozen=True, slots=True)
class Fetch:
    part: int
    """The rank that wrote it."""
    by: int
    """The rank of this attempt that fetches it."""
    place: str


@dataclass(frozen=True, slots=True)
class Journey:
    checkpoint: str
    fetches: tuple[Fetch, ...]


@dataclass(frozen=True, slots=True)
class OutOfReach:
    checkpoint: str
    why: str


def plan_journeys(seen: Sequence[Seen], chain: Chain, attempt: int) -> list[Journey | OutOfReach]:
    """What is staged, not committed and newer than all that can be loaded, the newest first.

    `seen` by rank. With the same rules as adoption: nobody may have gone on from elsewhere since.
    """
    told: set[str] = {each.record.checkpoint for each in chain.staged if not each.durable}
    names = {checkpoint for one in seen for _, checkpoint in one} | told
    found = sorted(candidates(names, chain, attempt), key=place_in_line, reverse=True)
    loadable = chain.loadable()
    journeys: list[Journey | OutOfReach] = []
    for checkpoint in found:
        if loadable:
            newest = loadable[0].committed
            if place_in_line(checkpoint) <= (newest.step, newest.attempt, newest.checkpoint.endswith(".final")):
                break
        planned = _planned(checkpoint, seen)
        if isinstance(planned, Journey) or checkpoint in told:  # half a set that nobody spoke of is nobody's
            journeys.append(planned)
    return journeys


def _planned(checkpoint: str, seen: Sequence[Seen]) -> Journey | OutOfReach:
    places: dict[int, list[tuple[int, str]]] = {}
    world_size = 0
    for by, one in enumerate(seen):
        for (place, name), sighting in one.items():
            if name == checkpoint:
                world_size = max(world_size, sighting.world_size)
                for part in sighting.parts:
                    places.setdefault(part, []).append((by, place))
    if not world_size:
        return OutOfReach(checkpoint, "no rank of this attempt finds any part")
    wanted = range(world_size)
    missing = [part for part in wanted if part not in places]
    if missing:
        who = ", ".join(map(str, missing[:8]))
        return OutOfReach(checkpoint, f"no rank of this attempt finds the part of rank {who}")
    busy = [0] * len(seen)
    fetches = []
    for part in wanted:
        by, place = min(places[part], key=lambda one: (one[0] != part, busy[one[0]]))
        busy[by] += 1
        fetches.append(Fetch(part, by, place))
    return Journey(checkpoint, tuple(fetches))
