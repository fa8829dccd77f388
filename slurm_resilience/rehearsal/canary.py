"""The training for a few steps before the long job is let go: a start, a stop, a save, a resume; on one node, on all.

Nothing is played: srun-resilient runs the very command, in a run of its own, and is asked to stop as a person asks it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.errors import EXIT_FINISHED, ManifestUnavailable
from slurm_resilience.manifest.chain import Attempt
from slurm_resilience.manifest.records import Cause
from slurm_resilience.rehearsal.canary_plan import Part
from slurm_resilience.rehearsal.canary_report import GaveUp, Report, Shown, Stage, Verdict, conclude
from slurm_resilience.rehearsal.canary_run import CanaryRun
from slurm_resilience.size import size_text

LOOK_S = 0.5
_NOT_THE_TRAININGS = (Cause.PREEMPTED, Cause.TIME_LIMIT, Cause.WARNED, Cause.CANCELLED, Cause.CANCELLED_BY_ADMIN)
"""Ends that say nothing about it."""


class _Failed(Exception):
    """The stage under way has failed."""


class _NotShown(Exception):
    """Neither failed nor passed: the part ends here."""


class _Over(Exception):
    """The canary itself is over."""


@dataclass(frozen=True, slots=True)
class Canary:
    folder: Path
    """Its own, made by it."""
    parts: Sequence[Part]
    steps: int
    patience_s: float
    """How long any one stage may take."""
    without_library_s: float | None
    """How long a command runs that doesn't use our library; None: such a one has failed."""
    keep: bool
    clock: Clock
    stopped: Callable[[], bool]
    environment: Mapping[str, str]
    say: Callable[[str], None]

    def sing(self) -> Report:
        """To the first failure. What it made is gone afterwards, unless it failed or is to be kept."""
        begun_s = self.clock.monotonic_s()
        stages: list[Stage] = []
        gave_up: GaveUp | None = None
        try:
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise ManifestUnavailable(f"the folder {self.folder} can't be made: {error.strerror or error}") from error
        try:
            for part in self.parts:
                self._part(part, stages)
                if any(stage.shown is Shown.FAILED for stage in stages):
                    break
        except _Over as over:
            gave_up = GaveUp(str(over))
        took_s = self.clock.monotonic_s() - begun_s
        report = conclude(stages, gave_up, folder=str(self.folder), kept=True, took_s=took_s)
        if report.verdict is Verdict.PASSED and not self.keep:
            self._clean_up()
            return conclude(stages, gave_up, folder=str(self.folder), kept=False, took_s=took_s)
        return report

    def _clean_up(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another canary's is beside it
            self.folder.parent.rmdir()

    def _part(self, part: Part, stages: list[Stage]) -> None:
        run = CanaryRun(part, self.environment, self.clock)
        try:
            _Part(self, run, stages).play()
        except (_Failed, _NotShown):
            pass  # told by its stage
        finally:
            run.end()


@dataclass(frozen=True, slots=True)
class _Part:
    canary: Canary
    run: CanaryRun
    stages: list[Stage]

    def play(self) -> None:
        with self._stage("start") as tell:
            tell(self._start(1))
        if self._attempt(1).resumed is None:
            self._play_without_library()
            return
        saved = self._play_to_a_save(1, at_least=self.canary.steps)
        with self._stage("resume") as tell:
            self._start(2)
            tell(self._resumed_at(saved))
        self._play_to_a_save(2, at_least=saved + self.canary.steps)

    def _play_to_a_save(self, number: int, *, at_least: int) -> int:
        """The step of the checkpoint that was saved for the stop."""
        with self._stage("steps") as tell:
            self._wait(lambda: self.run.step(number) >= at_least, number, f"it did not come to step {at_least}")
            tell(f"it came to step {self.run.step(number)}")
        with self._stage("stop") as tell:
            tell(self._stop(number))
        with self._stage("checkpoint") as tell:
            step, sentence = self._checkpoint(number, at_least)
            tell(sentence)
        return step

    def _play_without_library(self) -> None:
        with self._stage("stop") as tell:
            tell(self._stop(1))
        why = "the command doesn't use slurm_resilience.training, so that nobody sees its steps"
        self._told("resume", Shown.NOT_SHOWN, why, 0.0)

    def _start(self, number: int) -> str:
        """Until the ranks hold their state; of a command without our library, until it has run for a while."""
        canary, begun_s = self.canary, self.canary.clock.monotonic_s()
        try:
            self.run.start()
        except OSError as error:
            raise _Over(f"srun-resilient can't be started: {error}") from error

        def ready() -> bool:
            attempt, limit_s = self.run.attempt(number), canary.without_library_s
            if attempt is not None and attempt.resumed is not None:
                return True
            over = limit_s is not None and canary.clock.monotonic_s() - begun_s >= limit_s
            return attempt is not None and number == 1 and over

        self._wait(ready, number, "none of its ranks opened the run: slurm_resilience.training.open_run was not called")
        resumed = self._attempt(number).resumed
        if resumed is None:
            return f"it ran for {canary.without_library_s:g} s"
        return f"{resumed.world_size} ranks hold their state"

    def _resumed_at(self, saved: int) -> str:
        resumed = self._attempt(2).resumed
        if resumed is None or resumed.checkpoint is None:
            raise _Failed(f"it began at step 0 although there is a checkpoint of step {saved}")
        if resumed.step != saved:
            raise _Failed(f"it went on after step {resumed.step}, and the checkpoint is of step {saved}")
        return f"it goes on with step {saved + 1}"

    def _stop(self, number: int) -> str:
        try:
            self.run.ask_to_stop()
        except OSError as error:
            raise _Failed(f"the stop file can't be written: {error}") from error
        ended = self._wait_for_end(number)
        if ended.cause is not Cause.OPERATOR_STOP:
            self._give_up_if_not_its_fault(ended)
            raise _Failed(f"it ended otherwise than it was asked to: {self._why(number, ended)}")
        return "it stopped when it was asked to"

    def _wait_for_end(self, number: int) -> _End:
        self._pause_until(lambda: self.run.code() is not None, "it did not stop within {} s")
        ended = self._end_of(number)
        if ended is None:
            raise _Failed(f"srun-resilient left with {self.run.code()}: {self.run.last_words()}")
        if ended.cause is Cause.FINISHED:
            self._finished_early()
        return ended

    def _checkpoint(self, number: int, at_least: int) -> tuple[int, str]:
        saved = [each for each in self._attempt(number).checkpoints if each.step >= at_least]
        if not saved:
            raise _Failed("it stopped without a checkpoint of the step it stopped after")
        newest = max(saved, key=lambda each: each.step)
        why = self.run.verify(newest, timeout_s=self.canary.patience_s)
        if why is not None:
            raise _Failed(f"checkpoint {newest.checkpoint}: {why}")
        size = size_text(sum(part.bytes for part in newest.parts))
        return newest.step, f"step {newest.step}, {size}, is whole; saved in {newest.seconds:.1f} s"

    def _wait(self, happened: Callable[[], bool], number: int, otherwise: str) -> None:
        """Until it has happened. Whatever ends the training before is the stage's failure."""
        self._pause_until(lambda: happened() or self.run.code() is not None, f"{otherwise} within {{}} s")
        if not happened():
            code, ended = self.run.code(), self._end_of(number)
            if ended is not None:
                if ended.cause is Cause.FINISHED:
                    self._finished_early()
                self._give_up_if_not_its_fault(ended)
            raise _Failed(f"it ended (exit code {code}): {self._why(number, ended)}")
        if self.run.code() == EXIT_FINISHED:
            self._finished_early()

    def _pause_until(self, happened: Callable[[], bool], otherwise: str) -> None:
        canary = self.canary
        deadline_s = canary.clock.monotonic_s() + canary.patience_s
        while not happened():
            if canary.stopped():
                raise _Over("the canary was interrupted by a signal")
            if canary.clock.monotonic_s() >= deadline_s:
                raise _Failed(otherwise.format(f"{canary.patience_s:g}"))
            canary.clock.sleep(LOOK_S)

    def _finished_early(self) -> None:
        attempt = self.run.attempt(1)
        if attempt is not None and attempt.resumed is None and self.canary.without_library_s is not None:
            raise _NotShown("it came to its own end before it was asked to stop")
        raise _Over(
            "the training came to its own end before it could be stopped and resumed: give it more steps to do, or the "
            f"canary fewer than --steps={self.canary.steps}"
        )

    def _give_up_if_not_its_fault(self, ended: _End) -> None:
        if ended.cause in _NOT_THE_TRAININGS:
            raise _Over(f"the canary's job was ended: {ended.because}")

    def _why(self, number: int, ended: _End | None) -> str:
        if ended is None:
            return self.run.last_words() or "without a word"
        return self.run.triaged(number) or ended.because

    def _attempt(self, number: int) -> Attempt:
        found: list[Attempt] = []

        def read() -> bool:
            attempt = self.run.attempt(number)
            found.extend([] if attempt is None else [attempt])
            return bool(found)

        self._pause_until(read, "its journal can't be read for {} s")
        return found[0]

    def _end_of(self, number: int) -> _End | None:
        attempt = self.run.attempt(number)
        if attempt is None or attempt.ended is None:
            return None
        return _End(attempt.ended.cause, attempt.ended.because)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[Callable[[str], None]]:
        """Times it, and tells how it went."""
        clock = self.canary.clock
        begun_s, said = clock.monotonic_s(), [""]
        number = sum(stage.part == self.run.part.name and stage.name.startswith(name) for stage in self.stages)
        name = name if number == 0 else f"{name} again"

        def tell(sentence: str) -> None:
            said[0] = sentence

        try:
            yield tell
        except _Failed as failure:
            self._told(name, Shown.FAILED, str(failure), clock.monotonic_s() - begun_s)
            raise
        except _NotShown as reason:
            self._told(name, Shown.NOT_SHOWN, str(reason), clock.monotonic_s() - begun_s)
            raise
        self._told(name, Shown.PASSED, said[0], clock.monotonic_s() - begun_s)

    def _told(self, name: str, shown: Shown, sentence: str, took_s: float) -> None:
        part = self.run.part.name
        self.stages.append(Stage(part, name, shown, sentence, took_s))
        self.canary.say(f"{part}: {name}: {shown.value}, {sentence} ({took_s:.1f} s)")


@dataclass(frozen=True, slots=True)
class _End:
    cause: Cause
    because: str
