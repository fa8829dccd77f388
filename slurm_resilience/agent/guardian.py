"""A process that outlives the agent by a moment: when the agent is killed, it kills what the agent owned.

It is forked, not executed: it is there at once and needs no file that might be gone when it is needed. It is a child
of the agent in a session of its own, with every signal that Slurm sends blocked. That makes it a witness too: a signal
that is pending in it was sent to the whole tree by Slurm itself (see `pending_signals`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from pathlib import Path

from slurm_resilience.agent.process_tree import kill_tree, read_fields

KILL_S = 30.0
_IN_ORDER = b"."
_BLOCKED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


class Guardian:
    """`start` must be called while the agent has one thread only."""

    def __init__(self, marker: str, folder: Path) -> None:
        self.pid = 0
        self._marker = marker
        self._folder = folder
        self._pipe = -1

    def start(self) -> None:
        reading, writing = os.pipe()  # not inheritable: the tree never holds the writing end
        agent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(writing)
                _guard(reading, agent, self._marker, self._folder)
            finally:
                os._exit(0)
        os.close(reading)
        self._pipe = writing

    def dismiss(self, *, seconds: float) -> None:
        """The agent ends in order: the guardian is not to be left over, not even for a moment."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, _IN_ORDER)
        os.close(self._pipe)
        end_s = time.monotonic() + seconds
        with contextlib.suppress(ChildProcessError):  # it was reaped already
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > end_s:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.005)


def _guard(pipe: int, agent: int, marker: str, folder: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    os.setsid()
    _rename("slurm-resilience guardian")
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # who waits for the end of the agent's output must not wait for us
        os.dup2(nowhere, descriptor)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, 4096)
    if os.read(pipe, 1) == _IN_ORDER:
        return
    kill_tree(agent, marker, frozenset({os.getpid()}), seconds=KILL_S, reap=lambda: None)
    shutil.rmtree(folder, ignore_errors=True)


def _rename(title: str) -> None:
    """Overwrite our command line, as it lies in memory: who looks for an agent by name must not find its guardian."""
    fields = read_fields(os.getpid())
    if fields is None:
        return
    start, end = int(fields[45]), int(fields[46])  # fields 48 and 49 of /proc/PID/stat; 0 where we may not see them
    if start and end - start > len(title):
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title.encode(), len(title))
