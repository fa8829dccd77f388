"""How the supervisor hears: signals and the end of its child, as lines of a loop. A handler does nothing here."""

from __future__ import annotations

import os
import select
import signal
import socket

from slurm_resilience.clock import Clock

HEARD = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def _nothing(number: int, frame: object) -> None:
    """The wake-up descriptor has the number already."""


class Notices:
    """`with` opens: from then on the signals of `HEARD` are read by `wait`, and interrupt nothing."""

    def __init__(self) -> None:
        self._read: socket.socket | None = None
        self._write: socket.socket | None = None
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Notices:  # noqa: PYI034  # Self is new in 3.11
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for number in HEARD:
            self._before[number] = signal.signal(number, _nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned it also takes
        signal.set_wakeup_fd(self._wakeup_before)
        for end in (self._read, self._write):
            if end is not None:
                end.close()

    def wait(self, seconds: float) -> list[signal.Signals]:
        """What came within `seconds`, at once if something is there already."""
        assert self._read is not None
        select.select([self._read], [], [], max(0.0, seconds))
        try:
            numbers = self._read.recv(4096)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in numbers]

    def pause(self, seconds: float, clock: Clock) -> list[signal.Signals]:
        """As `wait`, but the end of a child is no reason to go on."""
        until_s = clock.monotonic_s() + seconds
        while True:
            left_s = until_s - clock.monotonic_s()
            heard: list[signal.Signals] = [number for number in self.wait(left_s) if number is not signal.SIGCHLD]
            if heard or left_s <= 0:
                return heard


def default_signals_in_child() -> None:
    """Between fork and exec: srun must find the signals as a shell would leave them, in a process group of its own."""
    os.setpgid(0, 0)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
