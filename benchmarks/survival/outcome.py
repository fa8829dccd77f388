"""What became of a training, from what it told of itself and what Slurm says at the end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.event_log import Event


@dataclass(frozen=True)
class Outcome:
    """Steps count from the start of the training."""

    last_step: int
    """The last step that was completed before the trouble ended the first life of the job."""
    saved_step: int
    """Of the checkpoint that lies there when that life is over; 0 for none."""
    state: str
    """Slurm's last word on the job."""
    exit_code: str
    restarts: int
    resumed_step: int | None
    """Where the second life went on; None: there was none that got so far."""
    lost_steps: int
    """Done in one life and again in the next, over all lives; or to be done again by whoever starts it by hand."""
    weights: str | None
    """A hash of the final weights; None: the training did not finish."""
    identical: bool | None = None
    """To the weights of the undisturbed run; None where there is nothing to compare."""

    @property
    def saved_current(self) -> bool:
        return self.saved_step >= self.last_step > 0

    @property
    def came_back(self) -> bool:
        return self.resumed_step is not None


def outcome_of(
    events: Sequence[Event], *, saved_step: int | None, state: str, exit_code: str, restarts: int
) -> Outcome:
    """`saved_step`: of the checkpoint that the end of the first life left behind, where somebody else than the program
    knows it; None: the program's own word."""
    lives = _lives(events)
    reached = [
        max((_step(event) for event in life if event.what == "stepped"), default=_step(life[0])) for life in lives
    ]
    saves = [_step(event) for event in lives[0] if event.what == "saved"] if lives else []
    saved = saved_step if saved_step is not None else (saves[-1] if saves else 0)
    last = reached[0] if reached else 0
    finished = [str(event.values["weights"]) for event in events if event.what == "finished"]
    return Outcome(
        last_step=last,
        saved_step=saved,
        state=state,
        exit_code=exit_code,
        restarts=restarts,
        resumed_step=_step(lives[1][0]) if len(lives) > 1 else None,
        lost_steps=(
            sum(step - _step(later[0]) for step, later in zip(reached, lives[1:], strict=False))
            if len(lives) > 1
            else last - saved
        ),
        weights=finished[-1] if finished else None,
    )


def _lives(events: Sequence[Event]) -> list[Sequence[Event]]:
    """One a start of the program: each begins with its word that it began."""
    begun = [number for number, event in enumerate(events) if event.what == "began"]
    return [events[first:after] for first, after in zip(begun, [*begun[1:], len(events)], strict=False)]


def _step(event: Event) -> int:
    return int(event.values["step"])


HEADER = (
    "tool",
    "event",
    "proctrack (runs)",
    "checkpoint of the current step",
    "end state, restarts",
    "resumed at",
    "steps lost",
    "same weights",
)


def row_of(tool: str, trouble: str, proctrack: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Runs that went alike are told once, others one after the other."""
    return [
        tool,
        trouble,
        f"{proctrack} ({len(outcomes)})",
        _alike(["yes" if outcome.saved_current else "none" for outcome in outcomes]),
        _alike([f"{_ending(outcome)}, {outcome.restarts}" for outcome in outcomes]),
        _alike([_resumed(outcome) for outcome in outcomes], always=any(outcome.came_back for outcome in outcomes)),
        _lost(outcomes),
        _alike([_identical(outcome) for outcome in outcomes]),
    ]


def _ending(outcome: Outcome) -> str:
    code, _, number = outcome.exit_code.partition(":")
    if outcome.state == "COMPLETED":
        return "COMPLETED" if outcome.weights is not None else "COMPLETED, unfinished"
    return f"{outcome.state} {code}" + (f" (signal {number})" if number not in ("", "0") else "")


def _resumed(outcome: Outcome) -> str:
    return "no" if outcome.resumed_step is None else f"{outcome.resumed_step} of {outcome.last_step}"


def _lost(outcomes: Sequence[Outcome]) -> str:
    numbers = " ".join(str(outcome.lost_steps) for outcome in outcomes)
    if any(outcome.came_back for outcome in outcomes):
        return numbers
    # What lies on the disk is not lost; but nobody goes on from it.
    return f"({numbers}, nothing restarts it)" if all(outcome.saved_current for outcome in outcomes) else numbers


def _identical(outcome: Outcome) -> str:
    if outcome.weights is None:
        return "–"
    return "yes" if outcome.identical else "no"


def _alike(words: Sequence[str], *, always: bool = False) -> str:
    return words[0] if len(set(words)) == 1 and not always else " / ".join(words)
