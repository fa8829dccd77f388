"""Preflight as a child of the supervisor: `slurm-resilience preflight`, watched to its end.

A process of its own because it loads what the supervisor must not load, and because it may hang where the supervisor
must hear Slurm's signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.command import signal_name
from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.preflight.report import Report, read_report
from slurm_resilience.supervisor.fitness import NotRun
from slurm_resilience.supervisor.notices import Notices

TICK_S = 0.25
MARGIN_S = 15.0
"""It ends by itself at its time limit; this much later it is taken for hung."""
LEAVE_S = 3.0
"""How long it may take to end its step, once it is asked to."""
LEAVING_TICK_S = 0.05
_LAST_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The attempt is over: a signal came, or the stop file."""

    signals: tuple[signal.Signals, ...]
    """None: it was the stop file."""
    heard_s: float
    """On the monotonic clock."""


@dataclass(frozen=True, slots=True)
class PreflightChild:
    argv: Sequence[str]
    environment: Mapping[str, str]
    report: Path
    """Where its report will be."""
    log: Path
    within_s: float
    stop_asked: Callable[[], bool]
    clock: Clock

    def watch(self, notices: Notices) -> Report | NotRun | Interrupted:
        """To its end, or to ours: nothing of it runs any more, as far as that can be seen to. Never raises."""
        try:
            with self.log.open("ab") as log:
                child = subprocess.Popen(
                    list(self.argv),
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a group of its own, which an interrupt at a terminal doesn't reach
                )
        except OSError as error:
            return NotRun(str(error))
        deadline_s = self.clock.monotonic_s() + self.within_s + MARGIN_S
        try:
            while not _is_over(child):
                heard = [number for number in notices.wait(TICK_S) if number is not signal.SIGCHLD]
                if heard or self._stop_asked():
                    return Interrupted(tuple(heard), self.clock.monotonic_s())
                if self.clock.monotonic_s() >= deadline_s:
                    return NotRun(f"it did not end within {self.within_s + MARGIN_S:.0f} s, and was killed")
        finally:
            self._end(child)
        return self._found(child.returncode)

    def _stop_asked(self) -> bool:
        with contextlib.suppress(OSError):  # a file that can't be looked for is nobody's word
            return self.stop_asked()
        return False

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Its whole group: a child that died may leave its srun behind. It is waited for last, so that its number, the
        group's name, is nobody else's meanwhile."""
        if not _is_over(child):
            _signal(child.pid, signal.SIGTERM)
            leave_s = self.clock.monotonic_s() + LEAVE_S
            while not _is_over(child) and self.clock.monotonic_s() < leave_s:
                self.clock.sleep(LEAVING_TICK_S)
        _signal(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # in a file system that hangs: Slurm ends it with the job
            child.wait(LEAVE_S)

    def _found(self, code: int) -> Report | NotRun:
        try:
            found = read_report(self.report)
        except ManifestUnsupported as error:
            return NotRun(str(error))
        if found is not None:
            return found
        left = f"left with {code}" if code >= 0 else f"was ended by {signal_name(-code)}"
        return NotRun(f"it {left} and no report: {self._last_words() or 'without a word'}")

    def _last_words(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        printable = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
        return printable.strip()[:300]


def _is_over(child: subprocess.Popen[bytes]) -> bool:
    """Without reaping it."""
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
