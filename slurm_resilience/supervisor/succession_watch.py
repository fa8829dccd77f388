"""The successor, looked after beside the training: a controller that is silent at the start keeps nobody waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ResilienceError, SlurmError, SlurmRejected
from slurm_resilience.slurm.client import JobRef, SlurmClient
from slurm_resilience.supervisor.question import Question
from slurm_resilience.supervisor.succession import CancelledByPerson, GoneOn, NotSure, Queued, Standing, Succession

FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 600.0
LOOK_AGAIN_S = 600.0
"""How often one that waits is looked at: somebody may have cancelled it, or taken its dependency away."""


@dataclass(frozen=True, slots=True)
class _Failed:
    why: str


_Seen = Union[Standing, _Failed]


class SuccessionWatch:
    def __init__(
        self, succession: Succession, slurm: SlurmClient, job: JobRef, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._succession = succession
        self._slurm = slurm
        self._job = job
        self._clock = clock
        self._say = say
        self._question: Question[_Seen] = Question("successor")
        self._due_s: float | None = None
        """When to look next; None: not any more."""
        self._pause_s = FIRST_PAUSE_S
        self._told = ""
        self._requeue_is_forbidden = False

    def look(self, number: int) -> None:
        """Make sure that the successor is there, and wait for Slurm's answer. Never raises: the training goes first."""
        self._take(self._seen(number))

    def tend(self, number: int) -> None:
        """The same where it is time to, a few times a second. Never waits."""
        answer = self._question.answer()
        if answer is not None and not isinstance(answer, SlurmError):
            self._take(answer)
        due = self._due_s is not None and self._clock.monotonic_s() >= self._due_s
        if due and not self._question.under_way:
            self._question.ask(lambda: self._seen(number))

    def settle(self, seconds: float) -> None:
        """Let a look end that is under way: what it finds, the end of the attempt finds again."""
        self._question.settle(seconds)

    def _seen(self, number: int) -> _Seen:
        try:
            standing = self._succession.make_sure(number)
            if isinstance(standing, Queued) and not self._requeue_is_forbidden:
                # Not before there is one: a preemption between the two would leave nobody to go on.
                self._forbid_requeue()
        except (ResilienceError, OSError) as error:
            return _Failed(str(error))
        return standing

    def _take(self, seen: _Seen) -> None:
        match seen:
            case Queued(job):
                self._tell(f"job {job} goes on with the run when job {self._job} is over")
                self._due_s, self._pause_s = self._clock.monotonic_s() + LOOK_AGAIN_S, FIRST_PAUSE_S
            case NotSure(why) | _Failed(why):
                self._tell(f"whether a successor is queued is not sure: {why}; looking again beside the training")
                self._due_s = self._clock.monotonic_s() + self._pause_s
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            case CancelledByPerson():
                self._tell(f"{seen}: the run will not go on after this attempt")
                self._due_s = None
            case GoneOn():
                self._due_s = None

    def _forbid_requeue(self) -> None:
        """Slurm must not start this job again beside its successor. Raises SlurmUnavailable."""
        try:
            self._slurm.may_requeue(self._job, False)
        except SlurmRejected as refusal:
            self._say(f"warning: Slurm may queue job {self._job} again although it has a successor: {refusal}")
        self._requeue_is_forbidden = True

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._say(text)
            self._told = text
