"""From what went wrong between pairs of nodes to the node that did it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Blame:
    nodes: tuple[int, ...]
    """Each explains the trouble of most of its own pairs."""
    pairs: tuple[Pair, ...]
    """What no single node explains: something between these two."""
    everybody: bool = False
    """It is so between most nodes: no node is to blame, but what they share."""


def blame(bad: Iterable[Pair], tried: Iterable[Pair]) -> Blame:
    """A vote: who has trouble in more than half of its pairs is named, the worst first; its pairs are explained then.

    A pair is from one to another: a node may be the trouble in one direction only. What has no direction is given in
    both. One bad node among three or more is named, and only it: of everybody else's pairs, one is with it. Two nodes
    can't outvote each other: their pair is named.
    """
    bad_ways = set(bad)
    ways = set(tried) | bad_ways
    everyone = {node for way in ways for node in way}
    blamed: list[int] = []
    left = set(bad_ways)
    while left:
        open_ways = [way for way in ways if not set(way) & set(blamed)]
        share = {node: _share(node, left, open_ways) for node in sorted(everyone - set(blamed))}
        worst = max(share, key=lambda node: share[node])
        if share[worst][0] <= 0.5:
            break
        blamed.append(worst)
        left = {way for way in left if worst not in way}
    bad_pairs = {_sorted(way) for way in bad_ways}
    if len(blamed) * 2 > len(everyone) or (len(everyone) > 2 and bad_pairs == {_sorted(way) for way in ways}):
        return Blame((), tuple(sorted(bad_pairs)), everybody=True)
    return Blame(tuple(sorted(blamed)), tuple(sorted({_sorted(way) for way in left})))


def _share(node: int, bad: set[Pair], ways: list[Pair]) -> tuple[float, int]:
    """Of its pairs, or of those that lead to it, or of those from it: how large a part is bad, and how many are.

    One bad pair proves nothing about either of its two.
    """
    bad_pairs = {_sorted(way) for way in bad}
    shares = []
    for own, troubled in (
        ({_sorted(way) for way in ways if node in way}, bad_pairs),
        ({way for way in ways if way[1] == node}, bad),
        ({way for way in ways if way[0] == node}, bad),
    ):
        number = len(own & troubled)
        shares.append((number / len(own) if number > 1 else 0.0, number))
    return max(shares)


@dataclass(frozen=True, slots=True)
class Slow:
    nodes: Mapping[int, float]
    """Each with how many times the median it takes, even in its best pair."""
    pairs: Mapping[Pair, float]
    """Of nodes that are fast with others."""
    median_s: float


def slowest(took_s: Mapping[Pair, float], *, times: float, least_s: float) -> Slow:
    """Whom the time of pairs shows to be slow: `times` the median and `least_s` more than it.

    A node is judged by its best pair, the nodes by the median over them: a slow node's partners are fast with each
    other, so it alone stands out, however many of the pairs it has slowed down. Two nodes can't be told apart.
    """
    best: dict[int, float] = {}
    for pair, seconds in took_s.items():
        for node in pair:
            best[node] = min(best.get(node, seconds), seconds)
    if len(best) < 3:
        return Slow({}, {}, statistics.median(took_s.values()) if took_s else 0.0)
    middle_s = statistics.median(best.values())

    def is_slow(seconds: float) -> bool:
        return seconds > times * middle_s and seconds - middle_s > least_s

    nodes = {node: best[node] / middle_s for node in sorted(best) if middle_s > 0 and is_slow(best[node])}
    pairs: dict[Pair, float] = {}
    for pair, seconds in took_s.items():
        if middle_s > 0 and is_slow(seconds) and not set(pair) & set(nodes):
            pairs[_sorted(pair)] = max(pairs.get(_sorted(pair), 0.0), seconds / middle_s)
    return Slow(nodes, pairs, middle_s)


def _sorted(pair: Pair) -> Pair:
    return (pair[0], pair[1]) if pair[0] <= pair[1] else (pair[1], pair[0])
