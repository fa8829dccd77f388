"""The publisher: `slurm-resilience checkpoints publish --follow` as a child of the supervisor.

It is a process of its own because it loads the libraries that the supervisor must not load, may be slow, and may die.
A training never waits for it, and a requeue neither; what it has begun, the next attempt's publisher goes on with.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ResilienceError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.parent_death import die_with_parent
from slurm_resilience.requeue.decision import Decision
from slurm_resilience.supervisor.destination import Waiting, waiting_for
from slurm_resilience.supervisor.notices import HEARD, Notices
from slurm_resilience.supervisor.patience import (
    LONG_LIFE_S,
    STOP_S,
    EndedInOrder,
    GiveUp,
    Halt,
    StartAgain,
    Wait,
    after_its_end,
    when_it_is_over,
)
from slurm_resilience.supervisor.request import Publishing

NICENESS = 19
SHIELDED = frozenset({signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP})
"""What Slurm sends to a batch script's processes. SIGINT is left: its session is its own, so it is our word alone."""
SAY_EVERY_S = 30.0
LOOK_EVERY_S = 2.0
_LAST_WORDS_BYTES = 4096


def publisher_argv(run: Path, publishing: Publishing) -> tuple[str, ...]:
    limit = () if publishing.limit is None else ("--limit", publishing.limit)
    program = (sys.executable, "-m", "slurm_resilience.cli.main", "checkpoints", "publish", str(run))
    return (*program, "--to", publishing.to, *limit, "--follow", "--no-progress")


class Publisher:
    def __init__(
        self,
        run: RunDirectory,
        publishing: Publishing,
        clock: Clock,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        argv: Sequence[str] | None = None,
    ) -> None:
        self._run = run
        self._publishing = publishing
        self._clock = clock
        self._environment = environment
        self._say = say
        self._argv = tuple(argv) if argv is not None else publisher_argv(run.path, publishing)
        self._child: subprocess.Popen[bytes] | None = None
        self._log = run.path / "publish.log"
        self._started_s = 0.0
        self._due_s: float | None = clock.monotonic_s()
        """When to start it; None: not any more."""
        self._ends = 0
        self._told = ""
        self._afterwards = False

    def __str__(self) -> str:
        return shlex.join(self._argv)

    def tend(self, attempt: int) -> None:
        """Start it, or start it again when its pause is over. Never raises: a training needs no copy."""
        now_s = self._clock.monotonic_s()
        if self._child is not None:
            code = self._child.poll()
            if code is None:
                return
            self._child = None
            self._after_its_end(code if code >= 0 else 128 - code, now_s)
        if self._due_s is not None and now_s >= self._due_s:
            self._start(attempt, now_s)

    def end(
        self,
        attempt: int,
        decision: Decision,
        notices: Notices,
        *,
        job_ends_s: float | None,
        must_leave_s: float | None,
    ) -> None:
        """The training is over, and `decision` is carried out. `job_ends_s` is since the epoch, the other monotonic."""
        patience = when_it_is_over(
            decision,
            job_ends_in_s=None if job_ends_s is None else job_ends_s - self._clock.now_s(),
            must_leave_in_s=None if must_leave_s is None else must_leave_s - self._clock.monotonic_s(),
        )
        match patience:
            case Wait(at_most_s):
                self._wait(attempt, None if at_most_s is None else self._clock.monotonic_s() + at_most_s, notices)
                self._stop(STOP_S)
            case Halt(within_s):
                self._stop(within_s)

    def _start(self, attempt: int, now_s: float) -> None:
        self._started_s, self._due_s = now_s, None
        self._log = self._run.attempt(attempt) / "publish.log"
        try:
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    self._argv,
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_prepare(os.getpid()),  # noqa: PLW1509  # the supervisor is single-threaded
                )
        except (OSError, subprocess.SubprocessError) as error:
            self._after_its_end(1, now_s, str(error))

    def _after_its_end(self, code: int, now_s: float, why: str | None = None) -> None:
        self._ends = 1 if now_s - self._started_s >= LONG_LIFE_S else self._ends + 1
        self._due_s = None
        words = why or self._last_words() or "without a word"
        match after_its_end(code, ends=self._ends, afterwards=self._afterwards):
            case StartAgain(pause_s):
                self._due_s = now_s + pause_s
                if words != self._told:
                    self._say(f"publishing ended with {code} ({words}); it is started again, now in {pause_s:g} s")
            case GiveUp(tries):
                self._say(f"publishing is given up after {tries} tries, the last ended with {code} ({words})")
            case EndedInOrder():
                pass
        self._told = words

    def _wait(self, attempt: int, until_s: float | None, notices: Notices) -> None:
        """Until the manifest says that everything is published, the time is up, or somebody signals us."""
        self._afterwards, self._ends, self._told = True, 0, ""
        if self._child is None:
            self._due_s = self._clock.monotonic_s()
        say_s = self._clock.monotonic_s()
        waiting: Waiting | None = None
        while True:
            ended = self._child is None or self._child.poll() is not None  # before we look: it may be done
            waiting = self._look() or waiting
            if waiting is not None and waiting.count == 0:
                if waiting.live:
                    self._say(f"published: {waiting.live} of {waiting.live} live checkpoints at {waiting.where}")
                return
            if ended:
                self.tend(attempt)
            now_s = self._clock.monotonic_s()
            what = "the checkpoints" if waiting is None else f"{waiting}"
            if self._child is None and self._due_s is None:
                self._say_what_is_left(what, "publishing fails")
                return
            if until_s is not None and now_s >= until_s:
                self._say_what_is_left(what, "the job's time is up")
                return
            if now_s >= say_s:
                self._say(f"waiting for {what} to be published")
                say_s = now_s + SAY_EVERY_S
            left_s = LOOK_EVERY_S if until_s is None else min(LOOK_EVERY_S, until_s - now_s)
            heard = [each for each in notices.wait(left_s) if each is not signal.SIGCHLD]
            if heard:
                self._say_what_is_left(what, f"{heard[0].name} came")
                return

    def _say_what_is_left(self, what: str, why: str) -> None:
        words = ["slurm-resilience", "checkpoints", "publish", str(self._run.path), "--to", self._publishing.to]
        self._say(f"{why}: not published yet: {what}; to go on with it: {shlex.join(words)}")

    def _look(self) -> Waiting | None:
        """None: the manifest can't be read now."""
        try:
            chain = Chain.of(Journal(self._run, clock=self._clock).read())
        except ResilienceError:
            return None
        return waiting_for(chain, self._publishing, self._environment)

    def _stop(self, within_s: float) -> None:
        """What it has sent stays, and the next one goes on from there: it may also be killed."""
        child, self._child, self._due_s = self._child, None, None
        if child is None:
            return
        child.send_signal(signal.SIGINT)
        try:
            child.wait(within_s)
        except subprocess.TimeoutExpired:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in a file system: it ends with us
                child.wait(1.0)

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:300] if lines else ""


def _prepare(parent: int) -> Callable[[], None]:
    """Between fork and exec: gone when the supervisor is, deaf to what is said to the job, last in line for a CPU."""

    def prepare() -> None:
        die_with_parent(parent)
        os.nice(NICENESS)
        for number in HEARD:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, SHIELDED)

    return prepare
