"""What is done to a run, drawn from a seed. Pure."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from slurm_resilience.requeue.limits import Limits


class Fault(enum.Enum):
    PREEMPT = "preempt"
    REQUEUE_BY_HAND = "requeue by hand"
    CANCEL = "the user cancels the running job"
    CANCEL_BY_ADMIN = "an admin cancels the running job"
    CANCEL_WAITING = "the user cancels the waiting job"
    HOLD = "the user holds the waiting job, and releases it"
    LOWER_THE_LIMIT = "lower the time limit"
    LOSE_A_NODE = "another node fails"
    LOSE_THE_BATCH_NODE = "the batch node fails"
    GHOST = "the batch node is cut off, and what runs there lives on"
    GHOST_AT_A_WORD = "the batch node is cut off at the supervisor's next word to Slurm"
    CRASH = "a rank crashes"
    KILL_AGENT = "kill a node agent"
    WARN = "SIGUSR1 to the steps"
    OPERATOR = "touch the stop file"
    KILL_SUPERVISOR = "kill the supervisor"
    KILL_SUPERVISOR_AT_LINE = "kill the supervisor at a line"
    KILL_SUPERVISOR_BEFORE_A_WORD = "kill the supervisor before a word to Slurm"
    KILL_SUPERVISOR_AFTER_A_WORD = "kill the supervisor after a word to Slurm"
    KILL_EVERYTHING = "kill supervisor, agents and ranks"
    KILL_DEPUTY = "kill the next deputy at a line"
    NO_ANSWER = "the controller gives no answer to some questions"
    SILENCE = "the controller is silent for minutes"
    LOSE_AN_ANSWER = "the next answer gets lost"
    PURGE = "Slurm forgets jobs that are over"
    RESUME = "somebody runs resume, although nothing is wrong"
    SUBMIT = "somebody submits the job a second time"


class When(enum.Enum):
    BEGIN = "after a job has started"
    TRAINING = "after a training has resumed"
    STEP_ENDS = "after a step has ended"
    PENDING = "after a job has been queued again"


_ALONE = {
    Fault.PREEMPT: 6,
    Fault.REQUEUE_BY_HAND: 3,
    Fault.CANCEL: 2,
    Fault.CANCEL_BY_ADMIN: 1,
    Fault.LOWER_THE_LIMIT: 3,
    Fault.LOSE_A_NODE: 2,
    Fault.LOSE_THE_BATCH_NODE: 2,
    Fault.GHOST: 3,
    Fault.CRASH: 5,
    Fault.KILL_AGENT: 2,
    Fault.WARN: 2,
    Fault.OPERATOR: 1,
    Fault.KILL_SUPERVISOR: 3,
    Fault.KILL_SUPERVISOR_AT_LINE: 2,
    Fault.KILL_EVERYTHING: 2,
    Fault.RESUME: 2,
    Fault.SUBMIT: 2,
    Fault.NO_ANSWER: 1,
    Fault.SILENCE: 2,
    Fault.LOSE_AN_ANSWER: 1,
}
_WITH_IT = {
    None: 10,
    Fault.KILL_SUPERVISOR_AT_LINE: 4,
    Fault.KILL_SUPERVISOR_BEFORE_A_WORD: 3,
    Fault.KILL_SUPERVISOR_AFTER_A_WORD: 3,
    Fault.KILL_DEPUTY: 2,
    Fault.NO_ANSWER: 2,
    Fault.SILENCE: 2,
    Fault.LOSE_AN_ANSWER: 3,
    Fault.CANCEL: 1,
    Fault.REQUEUE_BY_HAND: 1,
    Fault.RESUME: 2,
    Fault.SUBMIT: 2,
    Fault.PURGE: 1,
    Fault.GHOST_AT_A_WORD: 4,
}
"""What comes on top, a moment later."""
_AT_THE_END: dict[Fault | None, int] = {**_WITH_IT, Fault.GHOST: 2, Fault.LOSE_THE_BATCH_NODE: 1, Fault.PREEMPT: 1}
_WAITING = {
    Fault.CANCEL_WAITING: 2,
    Fault.HOLD: 2,
    Fault.PURGE: 2,
    Fault.RESUME: 3,
    Fault.SILENCE: 1,
    Fault.NO_ANSWER: 1,
    Fault.SUBMIT: 1,
}


@dataclass(frozen=True, slots=True)
class Blow:
    when: When
    after_s: float
    faults: tuple[tuple[Fault, float], ...]
    """Each with how long after the one before it comes."""
    dice: int
    """What else has to be drawn is drawn from this."""

    def __str__(self) -> str:
        what = ", then ".join(f"{fault.value} ({after_s:g} s)" for fault, after_s in self.faults)
        return f"{self.after_s:g} s {self.when.value}: {what}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same for a whole run."""

    chain: bool
    singleton: bool
    array: bool
    limits: Limits
    version: str
    accounting: bool
    cancel_partition: bool
    grace_s: int
    requeue_exit: tuple[int, ...]
    late_answers: bool
    busy: bool
    """The cluster: what is queued waits for nodes."""
    min_job_age_s: float
    """So long Slurm remembers a job that is over."""


@dataclass(frozen=True, slots=True)
class Schedule:
    setting: Setting
    blows: tuple[Blow, ...]


_GENEROUS = Limits(99, 99, 99, 99, 99, 99, 99, 99)


def draw(seed: int) -> Schedule:
    """The same for the same seed, on every Python."""
    dice = random.Random(seed)  # nobody's secret
    chain = dice.random() < 0.5
    setting = Setting(
        chain=chain,
        singleton=chain and dice.random() < 0.3,
        array=dice.random() < 0.3,
        limits=Limits() if dice.random() < 0.6 else _GENEROUS,
        version=dice.choice(("22.05.8", "22.05.8", "24.11.5")),
        accounting=dice.random() < 0.4,
        cancel_partition=dice.random() < 0.25,
        grace_s=dice.choice((0, 60)),
        requeue_exit=dice.choice(((), (), (142,))),
        late_answers=dice.random() < 0.5,
        busy=dice.random() < 0.3,
        min_job_age_s=dice.choice((300.0, 86_400.0)),
    )
    return Schedule(setting, tuple(_blow(dice) for _ in range(dice.randint(1, 8))))


def _blow(dice: random.Random) -> Blow:
    when = dice.choices(tuple(When), weights=(2, 8, 3, 2))[0]
    if when is When.PENDING:
        return Blow(when, round(dice.uniform(0, 130), 1), ((_one_of(dice, _WAITING), 0.0),), dice.randrange(1 << 30))
    if when is When.STEP_ENDS:
        first = _one_or_none_of(dice, _AT_THE_END) or Fault.REQUEUE_BY_HAND
        return Blow(when, round(dice.uniform(0, 4), 1), ((first, 0.0),), dice.randrange(1 << 30))
    late_s = dice.uniform(0, 8) if when is When.BEGIN else dice.uniform(0, 320)
    first = _one_of(dice, _ALONE)
    on_top = _one_or_none_of(dice, _WITH_IT)
    faults: tuple[tuple[Fault, float], ...] = ((first, 0.0),)
    if on_top is not None:
        faults = (*faults, (on_top, round(dice.uniform(0, 30), 1)))
    return Blow(when, round(late_s, 1), faults, dice.randrange(1 << 30))


def _one_of(dice: random.Random, weights: dict[Fault, int]) -> Fault:
    return dice.choices(tuple(weights), weights=tuple(weights.values()))[0]


def _one_or_none_of(dice: random.Random, weights: dict[Fault | None, int]) -> Fault | None:
    return dice.choices(tuple(weights), weights=tuple(weights.values()))[0]
