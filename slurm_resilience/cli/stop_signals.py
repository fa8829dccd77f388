"""Leaving a long command between two blocks: a signal leaves a number, the command looks when it suits it."""

from __future__ import annotations

import select
import signal
import socket
import time
from types import FrameType, TracebackType

from slurm_resilience.clock import SystemClock

_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals(SystemClock):
    """In the main thread, by `with`. Also a clock, whose sleep ends early when a signal has come."""

    def __enter__(self) -> StopSignals:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in _HEARD}
        return self

    def asked(self) -> bool:
        """Whether one of them has come; it stays so."""
        return self._came_within(0)

    def sleep(self, seconds: float) -> None:
        if self.asked():
            return
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0 and not self._came_within(left_s):
            pass

    def _came_within(self, seconds: float) -> bool:
        return bool(select.select([self._reading], [], [], seconds)[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._wakeup_before)
        self._reading.close()
        self._writing.close()


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must exist for the number to be written to the wakeup socket; it does nothing."""
