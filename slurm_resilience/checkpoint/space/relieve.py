"""Carrying out a relief: step by step, no further than needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Union

from slurm_resilience.checkpoint.space.relief import Forget, ReleaseBallast, Relief, Step, Sweep
from slurm_resilience.errors import ResilienceError


class Hands(Protocol):
    """What carries a step out. A refusal (ResilienceError or OSError) costs that step, not those behind it."""

    def sweep(self, checkpoint: str) -> None: ...

    def forget(self, checkpoint: str, why: str) -> None:
        """The manifest first, then the files."""

    def release_ballast(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Relieved:
    """There is room for another try."""

    done: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class NotRelieved:
    done: tuple[Step, ...]
    why: str


Outcome = Union[Relieved, NotRelieved]


def relieve(relief: Relief, hands: Hands, *, enough: Callable[[], bool | None], say: Callable[[str], None]) -> Outcome:
    """`enough` is asked after each step; None: nobody can say, so a step that freed something has to do.

    Never raises for a refusal: who comes here has one trouble already.
    """
    done: list[Step] = []
    for step in relief.steps:
        try:
            _carry_out(step, hands)
        except (ResilienceError, OSError) as error:
            say(f"{_words(step)} failed: {error}")
            continue
        done.append(step)
        say(f"{_words(step)}: {step.why}")
        if enough() is not False:
            return Relieved(tuple(done))
    return NotRelieved(tuple(done), relief.otherwise.why)


def _carry_out(step: Step, hands: Hands) -> None:
    match step:
        case Sweep(checkpoint):
            hands.sweep(checkpoint)
        case Forget(checkpoint, _, why):
            hands.forget(checkpoint, why)
        case ReleaseBallast():
            hands.release_ballast()


def _words(step: Step) -> str:
    match step:
        case Sweep(checkpoint):
            return f"removing what is left of {checkpoint}"
        case Forget(checkpoint):
            return f"forgetting {checkpoint}"
        case ReleaseBallast(bytes_):
            return f"releasing the ballast of {bytes_} bytes"
