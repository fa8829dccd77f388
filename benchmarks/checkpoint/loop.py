"""A training as its processor sees it: many small calls, and every tenth step an update of the state."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch

Mode = Literal["spare", "busy"]
"""Whether a core has nothing to do, or what a training has besides (its data, say) keeps all of them busy."""

STEPS_AN_UPDATE = 10
"""With steps of 0.1 s there is a second between two updates: a copy may take so long without anybody waiting."""

_CALIBRATION_STEPS = 5


@dataclass
class Lap:
    """Steps that were run one behind the other, and how long each took."""

    steps_s: list[float] = field(default_factory=list)
    waited_s: float = 0.0
    """Before updates."""
    took_s: float = 0.0


class Loop:
    """Computes nothing of use, in one thread. The same work each step, whatever the machine does."""

    def __init__(self, step_s: float) -> None:
        width = 128  # small: much of it is the interpreter's time
        self._weight = torch.rand(width, width) / width
        self._calls = 1
        once_s = min(self._once() for _ in range(200))
        self._calls = max(1, round(step_s / once_s))
        self._calls = max(1, round(self._calls * step_s / min(self._once() for _ in range(_CALIBRATION_STEPS))))

    def run(self, least_steps: int, before_update: Callable[[], object], done: Callable[[], bool]) -> Lap:
        """So many steps, and more until `done`."""
        lap = Lap()
        began_s = time.perf_counter()
        while len(lap.steps_s) < least_steps or not done():
            lap.steps_s.append(self._once())
            if len(lap.steps_s) % STEPS_AN_UPDATE == 0:
                update_s = time.perf_counter()
                before_update()
                lap.waited_s += time.perf_counter() - update_s
        lap.took_s = time.perf_counter() - began_s
        return lap

    def _once(self) -> float:
        began_s = time.perf_counter()
        value = self._weight
        for _ in range(self._calls):
            value = torch.relu(value @ self._weight)
        return time.perf_counter() - began_s


@contextlib.contextmanager
def neighbours(mode: Mode) -> Iterator[None]:
    """Keep all cores but one busy, or none."""
    count = len(os.sched_getaffinity(0)) - 1 if mode == "busy" else 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def slow_down(lap: Lap, during_s: float, alone_s: float) -> float:
    """How many times `alone_s` the steps took that began within the first `during_s` seconds; at least the first."""
    begun_s = 0.0
    during: list[float] = []
    for step_s in lap.steps_s:
        if during and begun_s >= during_s:
            break
        during.append(step_s)
        begun_s += step_s
    return statistics.fmean(during) / alone_s
