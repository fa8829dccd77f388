"""How far the nodes' clocks are apart, by the formula of NTP, and whether that matters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from slurm_resilience.preflight.request import CLOCK
from slurm_resilience.preflight.result import Finding, Problem, Result, fail, ok, warn

WARN_S = 0.5
"""Ours: the order of lines in two nodes' logs is lost by then."""
FAIL_S = 60.0
"""MUNGE's credentials live for 300 s, counted on both clocks: a node so far off drifts out of the cluster."""
_REMEDY = (
    "tell the administrators: time synchronisation (chronyc tracking, timedatectl) is not working there, Slurm's "
    "credentials will be refused when the offset grows, and logs can't be put in order"
)


@dataclass(frozen=True, slots=True)
class Ping:
    """One question and its answer. Sent and received on our clock, `there_s` on the node's."""

    sent_s: float
    there_s: float
    round_trip_s: float


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a clock is ahead, and how far that may be wrong."""

    seconds: float
    error_s: float


def offset_by(pings: Iterable[Ping]) -> Offset | None:
    """By the ping with the shortest round trip: the answer was written somewhere in it. None: there was no answer."""
    best = min(pings, key=lambda ping: ping.round_trip_s, default=None)
    if best is None:
        return None
    half_s = best.round_trip_s / 2
    return Offset(best.there_s - (best.sent_s + half_s), half_s)


def relative_to_first(nodes: Sequence[str], offsets: Mapping[str, Offset]) -> dict[str, Offset]:
    """Ours cancels out: what is left is between the nodes. `nodes` gives the order."""
    known = [node for node in nodes if node in offsets]
    if not known:
        return {}
    first = offsets[known[0]]
    return {
        node: Offset(0.0, 0.0)
        if node == known[0]
        else Offset(offsets[node].seconds - first.seconds, offsets[node].error_s + first.error_s)
        for node in known
    }


def judge(offsets: Mapping[str, Offset], *, ours_counts: bool) -> list[Result]:
    """`offsets` are from the conductor's clock, which is a voter more where it is on none of the nodes (`ours_counts`).

    Who is off is a vote: those that agree and are most are right. Where there is no majority, nobody is blamed alone.
    """
    if len(offsets) < 2:
        return []
    voters = [*offsets.values(), *([Offset(0.0, 0.0)] if ours_counts else [])]
    sides = [[other for other in voters if _agree(one, other)] for one in voters]
    right = max(sides, key=len)
    if 2 * len(right) <= len(voters):
        return [_undecided(offsets)]
    reference_s = median(each.seconds for each in right)
    spread_s = max(each.error_s for each in right)
    return [Result(CLOCK, node, _finding(node, offset, reference_s, spread_s)) for node, offset in offsets.items()]


def _agree(one: Offset, other: Offset) -> bool:
    return abs(one.seconds - other.seconds) - one.error_s - other.error_s <= WARN_S


def _finding(node: str, offset: Offset, reference_s: float, spread_s: float) -> Finding:
    off_s = offset.seconds - reference_s
    sure_s = abs(off_s) - offset.error_s - spread_s
    measured: dict[str, Any] = {"offset_s": round(off_s, 6), "error_s": round(offset.error_s + spread_s, 6)}
    if sure_s <= WARN_S:
        return ok("the clocks agree", **measured)
    sentence = f"the clock of {node} is {abs(off_s):.3g} s {'ahead of' if off_s > 0 else 'behind'} the others'"
    say = fail if sure_s > FAIL_S else warn
    return say(Problem.NODE, sentence, _REMEDY, **measured)


def _undecided(offsets: Mapping[str, Offset]) -> Result:
    """None of them is the odd one out: two nodes, or two halves."""
    slowest = min(offsets, key=lambda node: offsets[node].seconds)
    fastest = max(offsets, key=lambda node: offsets[node].seconds)
    apart_s = offsets[fastest].seconds - offsets[slowest].seconds
    sure_s = apart_s - offsets[fastest].error_s - offsets[slowest].error_s
    sentence = f"the clock of {fastest} is {apart_s:.3g} s ahead of {slowest}'s; which one is wrong can't be told"
    say = fail if sure_s > FAIL_S else warn
    return Result(CLOCK, None, say(Problem.NODE, sentence, _REMEDY, apart_s=round(apart_s, 6)))
