"""How the agent's loop is woken: by signals (a handler that leaves a number) and by its own thread."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from types import FrameType

HEARD = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
BLOCKED_AT_START = frozenset({*HEARD, signal.SIGCONT})
_RING = b"\0"  # no signal has this number
_MOST_BYTES = 65536


class Doorbell:
    """`open` must be called in the main thread with the signals still blocked; it unblocks them when all is ready."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()

    def open(self) -> None:
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        for number in (*HEARD, signal.SIGCHLD):
            signal.signal(number, _nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_AT_START)

    def ring(self) -> None:
        """Wake the loop, from any thread."""
        with contextlib.suppress(OSError):  # full: it is awake already
            self._writing.send(_RING)

    def wait(self, seconds: float) -> list[str]:
        """Wait for a ring or a signal, not longer than `seconds`. The names of the signals that came, in order."""
        select.select([self._reading], [], [], seconds)
        try:
            numbers = self._reading.recv(_MOST_BYTES)
        except BlockingIOError:
            return []
        return [signal.Signals(number).name for number in numbers if number in HEARD]


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must exist for the number to be written to the wakeup socket; it does nothing."""
