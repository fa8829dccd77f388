"""What is done to a run, drawn from a seed. Pure."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Fault(enum.Enum):
    PREEMPT = "preempt"
    REQUEUE_BY_HAND = "requeue by hand"
    WARN = "warn the steps by SIGUSR1"
    KILL_TRAINING = "kill rank 0"
    KILL_AGENT = "kill a node agent"
    KILL_SUPERVISOR = "kill the supervisor"
    KILL_EVERYTHING = "kill supervisor, agents and ranks"
    KILL_SLURMD = "kill a node's slurmd"
    RESTART_CONTROLLER = "restart the controller"
    PREEMPT_WITHOUT_CONTROLLER = "preempt, and stop the controller in the grace"
    LOWER_THE_TIME_LIMIT = "lower the time limit to the next minute"


_WEIGHTS = {
    Fault.PREEMPT: 4,
    Fault.REQUEUE_BY_HAND: 3,
    Fault.WARN: 2,
    Fault.KILL_TRAINING: 3,
    Fault.KILL_AGENT: 3,
    Fault.KILL_SUPERVISOR: 3,
    Fault.KILL_EVERYTHING: 2,
    Fault.KILL_SLURMD: 1,
    Fault.RESTART_CONTROLLER: 2,
    Fault.PREEMPT_WITHOUT_CONTROLLER: 2,
    Fault.LOWER_THE_TIME_LIMIT: 1,
}


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault, and how long after an attempt has resumed it comes."""

    fault: Fault
    after_s: float
    node: int
    """Which of the run's nodes, where it is one node's affair."""


def draw(seed: int, *, blows: int) -> tuple[Blow, ...]:
    """The same for the same seed, on every Python."""
    dice = random.Random(seed)  # nobody's secret
    faults = list(_WEIGHTS)
    return tuple(
        Blow(
            dice.choices(faults, weights=[_WEIGHTS[fault] for fault in faults])[0],
            round(dice.uniform(0.0, 2.5), 2),
            dice.randrange(2),
        )
        for _ in range(blows)
    )
