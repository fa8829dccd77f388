"""Where a rank learns that it should stop: the node's page, or in bare mode its own signals."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Protocol

from slurm_resilience.clock import Clock
from slurm_resilience.signals.runtime_folder import StopPageReader
from slurm_resilience.signals.stop_request import StopReason, StopRequest

KILL_WAIT_S = 30.0
"""Slurm's default KillWait: what a bare SIGTERM leaves us with, if it comes from Slurm or torchrun."""

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class Stopped(SystemExit):
    """The training was asked to stop, has saved and leaves the process with code 0.

    A SystemExit, so that it passes through `except Exception` and ends the process quietly wherever the loop stands.
    """

    def __init__(self, step: int, because: str) -> None:
        super().__init__(0)
        self.step = step
        self.because = because

    def __str__(self) -> str:
        return f"stopped after step {self.step}: {self.because}"


class StopSource(Protocol):
    def open(self) -> None: ...

    def asked(self) -> bool:
        """A look that costs nothing: called at every step."""

    def read(self) -> StopRequest | None: ...

    def close(self) -> None: ...


class _Handlers:
    """Handlers that hand on a number, for those signals that nobody else handles.

    A handler of the user's own stays: it knows better. In a thread that is not the main one nothing is installed.
    """

    def __init__(self, take: Callable[[int], None]) -> None:
        self._take = take
        self._pid = os.getpid()
        self._installed: list[signal.Signals] = []

    def open(self) -> bool:
        """False: this is not the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._hear)
                signal.siginterrupt(number, False)  # gloo and NCCL wait in system calls, and not all of theirs retry
                self._installed.append(number)
        return True

    def close(self) -> None:
        for number in self._installed:
            if signal.getsignal(number) == self._hear:
                signal.signal(number, signal.SIG_DFL)
        self._installed.clear()

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A forked child has our handler but not our job: it dies of the signal, as it would have without us.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._take(number)


class PageStopSource:
    """Under srun-resilient: the node agent hears the signals and writes the page.

    Where the rank is a plain task of Slurm's nothing shields it, and some Slurms signal every process of a step
    (proctrack/linuxproc): it must not die of what the page says, too.
    """

    def __init__(self, folder: Path) -> None:
        self._page = StopPageReader(folder)
        self._handlers = _Handlers(_nothing)

    def open(self) -> None:
        self._page.open()
        self._handlers.open()

    def asked(self) -> bool:
        return self._page.asked()

    def read(self) -> StopRequest | None:
        return self._page.read()

    def close(self) -> None:
        self._handlers.close()
        self._page.close()


def _nothing(number: int) -> None:
    """The agent hears it as well."""


class SignalStopSource:
    """Bare mode: the rank's own signals."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0
        self._request: StopRequest | None = None
        self._handlers = _Handlers(self._leave_number)

    def open(self) -> None:
        if not self._handlers.open():
            sys.stderr.write("slurm-resilience: not opened in the main thread, so signals are left alone\n")

    def _leave_number(self, number: int) -> None:
        if self._number == 0:
            self._number = number

    def asked(self) -> bool:
        return self._number != 0

    def read(self) -> StopRequest | None:
        if self._number == 0:
            return None
        if self._request is None:
            now_s = self._clock.monotonic_s()
            name = signal.Signals(self._number).name
            if self._number == signal.SIGTERM:
                self._request = StopRequest(StopReason.TERMINATION, f"{name} came", now_s, now_s + KILL_WAIT_S)
            else:
                self._request = StopRequest(StopReason.WARNING, f"{name} came", now_s, math.inf)
        return self._request

    def close(self) -> None:
        self._handlers.close()
