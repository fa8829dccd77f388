"""Measuring several methods in turn, so that what the machine does meanwhile meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.report import progress

Measured = dict[str, float]
"""By the quantity's name, its unit at the end: `took_s`."""

Method = Callable[[], Measured]


class NotHere(Exception):
    """A method that this machine, or what is installed on it, can't run, and why."""


@dataclass(frozen=True)
class Part:
    """What one part of the benchmark came to: round by round for each method, and which methods could not be run."""

    measured: dict[str, list[Measured]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def values(self, method: str, quantity: str) -> list[float]:
        """Round by round. Empty where it wasn't measured."""
        return [each[quantity] for each in self.measured.get(method, []) if quantity in each]


def turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Every name once a round. Each round begins with another one: being first, or behind a certain other, costs."""
    for number in range(rounds):
        start = number % len(names) if names else 0
        yield from [*names[start:], *names[:start]]


def measure(
    part: str, methods: Mapping[str, Method], rounds: int, *, tolerant: bool = True, trial_round: bool = True
) -> Part:
    """A `trial_round` that doesn't count, then `rounds` that do. `tolerant`: what fails is left out, with why."""
    measured: dict[str, list[Measured]] = {name: [] for name in methods}
    missing: dict[str, str] = {}

    def attempt(name: str) -> Measured | None:
        if name in missing:
            return None
        try:
            found = methods[name]()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # torch's CheckpointException is no Exception
            if not tolerant:
                raise
            missing[name] = str(error) if isinstance(error, NotHere) else f"{type(error).__name__}: {_short(error)}"
            measured.pop(name)
            progress(f"{part}: {name}: left out: {missing[name]}")
            return None
        return found

    for name in methods if trial_round else ():
        attempt(name)
    for number, name in enumerate(turns(list(methods), rounds)):
        if number % len(methods) == 0:
            progress(f"{part}: round {number // len(methods) + 1} of {rounds}")
        found = attempt(name)
        if found is not None:
            measured[name].append(found)
    return Part(measured, missing)


def _short(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:200]
