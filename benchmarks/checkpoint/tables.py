"""What was measured, for people: one table a part, then the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.checkpoint.goals import Judged, judged
from benchmarks.checkpoint.rounds import Part
from benchmarks.checkpoint.wanted import goals
from benchmarks.figures import figure

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]

_WORDS = {
    "gb_per_s": "GB/s",
    "took_s": "s",
    "cpu_s": "of the processor, s",
    "page_cache_gb": "page cache grew, GB",
    "disk_gb": "on the disk, GB",
    "stall_s": "stall, s",
    "durable_s": "until durable, s",
    "lost_s": "training time lost, s",
    "slow_down": "steps slowed, times",
    "more_gb": "more memory, GB",
    "images": "over the state",
}
_DIGITS = {"stall_s": 3, "lost_s": 3}

_TITLES = {
    "write": "Durable write",
    "load cold": "Load, page cache empty",
    "load warm": "Load, page cache full",
    "stall spare": "Saving while training goes on, one core spare",
    "stall busy": "Saving while training goes on, all cores busy",
    "memory": "Extra memory of two saves in the background, at most",
    "two ranks": "Two ranks with the same state; GB/s of that state",
    "stop": "From the stop request to durable",
    "incremental": "Three saves in a row; arrange is finding out what is unchanged",
}


def tables(parts: Mapping[str, Part], table: Table) -> Iterator[str]:
    """Each with its title."""
    for name, part in parts.items():
        yield f"{_TITLES.get(name, name)}\n\n{_of_part(part, table)}"
    rows = [_row(one) for one in verdicts(parts)]
    if rows:
        yield f"Goals, paired by round\n\n{table(['goal', 'wanted', 'found', ''], rows)}"


def verdicts(parts: Mapping[str, Part]) -> list[Judged]:
    """Of the parts that were measured."""
    return [judged(goal, parts) for goal in goals() if goal.of.part in parts]


def _of_part(part: Part, table: Table) -> str:
    quantities = list(dict.fromkeys(each for rounds in part.measured.values() for one in rounds[:1] for each in one))
    rows = [
        [method, *(_cell(part.values(method, quantity), _DIGITS.get(quantity, 2)) for quantity in quantities)]
        for method in part.measured
    ]
    text = table(["method", *(_WORDS.get(quantity, quantity) for quantity in quantities)], rows)
    return "\n".join([text, *(f"\n{method}: {why}" for method, why in part.missing.items())])


def _cell(values: Sequence[float], digits: int) -> str:
    return figure(values).text(digits) if values else ""


def _row(one: Judged) -> list[str]:
    found = "not measured" if one.found is None else one.found.text(3 if one.goal.limit < 0.1 else 2)
    verdict = {True: "met", False: "not met", None: ""}[one.met]
    return [one.goal.text, f"{one.goal.bound} {one.goal.limit:g}", found, verdict]
