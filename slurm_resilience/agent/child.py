"""Starts the command with the signals it must not hear blocked, and collects the codes of everything that ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from slurm_resilience.parent_death import die_with_parent

SHIELDED = frozenset({signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})
_PLAIN = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGCONT)


class Child:
    def __init__(self) -> None:
        self.pid = 0
        self.code: int | None = None
        """As the shell would say it; None while it runs."""
        self.others: dict[int, int] = {}
        """Codes of other children that ended: the guardian, and orphans that became ours."""
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self, argv: Sequence[str], environment: Mapping[str, str], blocked: frozenset[signal.Signals]) -> None:
        """Start the command with exactly `blocked` blocked and every handler back at its default.

        Must be called while the agent has one thread only, with signals blocked. Raises OSError.
        """
        parent = os.getpid()

        def prepare() -> None:
            die_with_parent(parent)
            for number in _PLAIN:  # an ignored signal would stay ignored through exec: nohup and shells leave such
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

        self._popen = subprocess.Popen(
            list(argv),
            env=dict(environment),
            start_new_session=True,  # what is sent to our group, or by our terminal, is ours alone
            preexec_fn=prepare,  # noqa: PLW1509  # there is one thread: the clerk starts later
        )
        self.pid = self._popen.pid

    def reap(self) -> None:
        """Collect the code of every child that has ended. Popen.wait() would leave the orphans as zombies."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid == self.pid and self._popen is not None:
                self._popen.returncode = code  # else it warns that its process still runs
                self.code = code if code >= 0 else 128 - code
            else:
                self.others[pid] = code
