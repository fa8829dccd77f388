"""Virtual time, and processes in it: one at a time, each until it sleeps, so that a seed tells the whole story.

A process is a thread that only ever runs while everybody else waits. It hands over when it sleeps, and every word to
Slurm is a sleep, so others come between where they could in life.
"""

from __future__ import annotations

import heapq
import itertools
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tests.crash.die_at_line import PACKAGE

MORTAL = tuple(f"{PACKAGE / folder}" for folder in ("supervisor", "requeue", "manifest", "slurm"))
"""Where a process may be killed at a line."""
EPOCH_S = 1_800_000_000.0


class Killed(BaseException):
    """SIGKILL. What `finally` and context managers do on the way out happens all the same, other than in life.

    A lock is let go (as the kernel would), a temporary file may be removed; tests/crash has what must hold then.
    """


@dataclass
class VirtualTime:
    now_s: float = EPOCH_S
    current: Process | None = None
    """Whose code runs; None: the world's own."""
    at_wake: Callable[[Process], None] = lambda _: None
    hub: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + seconds, next(self._order), what))

    def go_on(self) -> bool:
        """Let the next thing happen. False: nothing is left."""
        if not self._events:
            return False
        self.now_s, _, what = heapq.heappop(self._events)
        what()
        return True


@dataclass
class WorldClock:
    time: VirtualTime

    def now_s(self) -> float:
        return self.time.now_s

    def monotonic_s(self) -> float:
        return self.time.now_s - EPOCH_S + 1000.0

    def sleep(self, seconds: float) -> None:
        process = self.time.current
        if process is not None and process.is_here:  # a question's own thread takes no time
            process.sleep(seconds)


class Process:
    """`work` returns its exit code. It dies of `kill`, at once where it stands."""

    def __init__(
        self, time: VirtualTime, name: str, node: str, work: Callable[[Process], int], at_end: Callable[[Process], None]
    ) -> None:
        self.name = name
        self.node = node
        self.over = False
        self.killed = False
        self.code: int | None = None
        self.error: BaseException | None = None
        self.died_at = ""
        self.calls_left: tuple[int, str] | None = None
        """It dies at so many words to Slurm from now on, `before` or `after` they took effect."""
        self.last_look_s: float | None = None
        """When Slurm last told it about a job."""
        self.signals: list[signal.Signals] = []
        """What it was sent and has not read."""
        self._time = time
        self._work = work
        self._at_end = at_end
        self._go = threading.Semaphore(0)
        self._wakes = 0
        self._lines_left: int | None = None
        self._armed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._time.after(0.0, lambda: self._wake(0))

    def sleep(self, seconds: float) -> None:
        """In the process itself."""
        if self.killed:
            raise Killed
        self._wakes += 1
        number = self._wakes
        self._time.after(max(0.0, seconds), lambda: self._wake(number))
        self._time.hub.release()
        self._go.acquire()
        if self.killed:
            raise Killed
        self._arm()

    def interrupt(self) -> None:
        """Its sleep ends now."""
        number = self._wakes
        self._time.after(0.0, lambda: self._wake(number))

    def kill(self, why: str = "SIGKILL") -> None:
        if self.over or self.killed:
            return
        self.killed, self.died_at = True, why
        if self.is_here:
            raise Killed
        self.interrupt()

    def kill_at_line(self, lines: int) -> None:
        """From now on so many lines of the package are executed, and no more."""
        self._lines_left, self._armed = lines, False

    def _wake(self, number: int) -> None:
        if self.over or number != self._wakes:
            return
        self._time.current = self
        self._time.at_wake(self)
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        self._time.hub.acquire()
        self._time.current = None
        if self.is_over:  # it became so while it ran
            self._at_end(self)

    @property
    def is_over(self) -> bool:
        return self.over

    def _run(self) -> None:
        try:
            if not self.killed:
                self._arm()
                self.code = self._work(self)
        except Killed:
            self.killed = True
        except BaseException as error:  # noqa: BLE001  # told by the world
            self.error = error
        finally:
            sys.settrace(None)
            self.over = True
            self._time.hub.release()

    def _arm(self) -> None:
        if self._lines_left is None or self._armed:
            return
        self._armed = True
        frame: FrameType | None = sys._getframe()  # what runs already is to die at a line of its own, too
        while frame is not None:
            if frame.f_code.co_filename.startswith(MORTAL):
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(MORTAL) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self._lines_left is not None:
            self._lines_left -= 1
            if self._lines_left <= 0:
                sys.settrace(None)
                self._lines_left = None
                self.killed = True
                self.died_at = f"{frame.f_code.co_filename.removeprefix(f'{PACKAGE}/')}:{frame.f_lineno}"
                raise Killed
        return self._line
