"""A run as the training sees it."""

from __future__ import annotations

import contextlib
import math
import os
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.errors import ConfigurationError, Fenced
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.training.attempt_identity import AttemptIdentity, begin_bare, end_bare, identity_given
from slurm_resilience.training.background import BackgroundSaver
from slurm_resilience.training.beginning import Beginning
from slurm_resilience.training.boundary import Boundary
from slurm_resilience.training.cursor import Cursor
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.facts import metric_of
from slurm_resilience.training.job_end import LOOK_S, SHARED_LOOK_S, JobEnd
from slurm_resilience.training.loops import Loops
from slurm_resilience.training.rank_report import RankReport
from slurm_resilience.training.ranks import Ranks, on_rank_zero, open_ranks, ranks_can_meet
from slurm_resilience.training.relay import RelayStopSource
from slurm_resilience.training.settings import RunSettings
from slurm_resilience.training.shield import ChildReaper, die_with_launcher, leave_without_teardown
from slurm_resilience.training.stop_source import PageStopSource, SignalStopSource, Stopped, StopSource
from slurm_resilience.training.training_state import TrainingState

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_finished_here: set[Path] = set()
"""The supervised runs that this process has finished: the one thing that only the process itself can know."""


class Run:
    """Made by `open_run`, entered by `with`. Not for several threads.

    Leaving the `with` block without an exception means that the training has come to its own end.
    """

    def __init__(
        self,
        directory: Path,
        environment: Environment,
        settings: RunSettings,
        clock: Clock,
    ) -> None:
        self.directory = directory
        self.resumed_from: str | None = None
        """The checkpoint that this attempt goes on from; None for a fresh start, or before the loops have begun."""
        self.metric: float | None = None
        """How good the state is, if the training says so: kept with the next checkpoints, for `keep_best`."""
        self._environment = environment
        self._settings = settings
        self._clock = clock
        self._store = settings.store(directory)
        self._folder = RunDirectory(directory)
        self._journal = Journal(self._folder)
        pages = environment.runtime_folder
        self._relay = None if environment.relay is None else RelayStopSource(environment.relay, clock)
        alone: StopSource = SignalStopSource(clock) if self._relay is None else self._relay
        self._stop: StopSource = alone if pages is None else PageStopSource(pages)
        self._report = RankReport(pages or environment.relay, local_rank=environment.local_rank, clock=clock)
        self._end = JobEnd(
            environment.end_s, environment.end_file, clock, look_s=SHARED_LOOK_S if environment.supervised else LOOK_S
        )
        self._cursor = Cursor()
        self._state = TrainingState(self._cursor)
        self._pid = 0
        self._ranks: Ranks | None = None
        self._identity: AttemptIdentity | None = None
        self._boundary: Boundary | None = None
        self._loops: Loops | None = None
        self._background: BackgroundSaver | None = None

    # What the training says.

    def register(self, **objects: Any) -> None:
        """Save and restore these: anything with `state_dict` and `load_state_dict`. They resume when the loops begin.

        Raises ConfigurationError for anything else, and once the loops have begun.
        """
        if self._loops is not None:
            raise ConfigurationError("register everything before the training loop starts: it has resumed already")
        for name, thing in objects.items():
            self._state.register(name, thing)
        if ranks_can_meet():
            self._join()

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs from 0 to `count`, without those that are done."""
        return self._begun().epochs(count)

    def batches(self, items: Iterable[T]) -> Iterator[T]:
        """The items of a DataLoader or another iterable, one step each, without those that are done."""
        return self._begun().batches(items)

    def steps(self, count: int) -> Iterator[int]:
        """The numbers from 0 to `count`, one step each, without those that are done."""
        return self._begun().steps(count)

    def resume(self) -> None:
        """Restore everything registered. The loops do that by themselves: only for who needs it earlier."""
        self._begun()

    def save(self) -> None:
        """Ask for a checkpoint: made at a boundary within about a second, on all ranks at the same one."""
        if self._boundary is None:
            raise ConfigurationError("run.save() is for the training loop: nothing has started yet")
        self._boundary.save_asked = True

    def should_stop(self) -> bool:
        """Whether this rank has been asked to stop: for leaving a long evaluation early.

        Another rank may see it a moment later: don't let collectives depend on it.
        """
        return self._stop.asked()

    def seconds_left(self) -> float | None:
        """How long this attempt may still run: to the end of the job's time, or to the deadline of a stop that was
        asked for. None: nobody says. Not a promise: a preemption can come before.

        Ranks may differ by their clocks: don't let collectives depend on it.
        """
        left_s = self._end.seconds_left()
        request = self._stop.read() if self._stop.asked() else None
        if request is None or math.isinf(request.deadline_s):
            return left_s
        until_s = request.deadline_s - self._clock.monotonic_s()
        return until_s if left_s is None else min(left_s, until_s)

    # What the training may want to know.

    @property
    def notes(self) -> dict[str, Any]:
        """The user's own values, saved and restored: numbers, strings, tensors, and dicts and lists of them."""
        return self._state.notes

    @property
    def step(self) -> int:
        """Steps completed since the start of the run."""
        return self._cursor.step

    @property
    def epoch(self) -> int:
        return self._cursor.epoch

    @property
    def run_id(self) -> str:
        """The same for all attempts of the run: for loggers that go on where they were."""
        return self._known().run_id

    @property
    def attempt(self) -> int:
        return self._known().attempt

    @property
    def world_size(self) -> int:
        return self._environment.world_size if self._ranks is None else self._ranks.world_size

    def _known(self) -> AttemptIdentity:
        if self._identity is None:
            raise ConfigurationError(
                "outside of srun-resilient, ranks other than 0 know run_id and attempt only once "
                "torch.distributed is initialised and something is registered"
            )
        return self._identity

    # The `with` block.

    def __enter__(self) -> Self:
        if self._environment.supervised and self.directory in _finished_here:
            raise ConfigurationError(
                f"this program has already finished the run {self.directory}: under srun-resilient one program trains "
                "one run, so start each training with an srun-resilient and a --run-dir of its own"
            )
        self._pid = os.getpid()
        if self._environment.has_launcher:
            die_with_launcher()
        ChildReaper().start()
        try:
            self._stop.open()
            if self._relay is not None and not self._relay.there:
                self._report.do_without()
            self._report.open()
        except OSError as error:
            raise ConfigurationError(
                f"the node's runtime folder {self._environment.runtime_folder} is not there: {error}"
            ) from error
        if self._relay is not None and self._environment.local_rank == 0:
            self._relay.tell_run(self.directory)
        self._identity = identity_given(self._environment, self._journal)
        if ranks_can_meet():
            self._join()
        elif self._identity is None and self._environment.rank == 0:
            self._identity = begin_bare(self._folder, self._journal, self._environment)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if os.getpid() != self._pid:
            return  # a child that was forked inside: whatever it comes to, the run is its parent's
        failure = None if isinstance(error, Stopped) else error
        try:
            if error is None and self._boundary is not None:
                self._cursor.close_step()
                self._boundary.finish()
                if self._environment.supervised:
                    _finished_here.add(self.directory)
        except Stopped as caught_before:
            error = caught_before
            raise
        except BaseException as in_finishing:
            failure = in_finishing
            raise
        finally:
            if failure is not None:
                self._say_failed(failure)
                if self._ranks is not None:
                    self._ranks.close()  # who waits for us must not wait for our process to end
            if failure is None and self._environment.supervised and self._boundary is not None:
                leave_without_teardown()  # stopped or finished, and durable
            if isinstance(failure, Fenced) and self._environment.supervised:
                leave_without_teardown(after_exception=failure.exit_code)  # a ghost, and not one that crashed
            if not isinstance(error, Stopped):  # on the way out of a stop, a second signal must find our handler
                self._stop.close()
            self._close()

    def _close(self) -> None:
        self._report.close()
        if self._background is not None:
            self._background.close()
        if not self._environment.supervised and self._rank() == 0 and self._identity is not None:
            end_bare(self._folder, self._identity.attempt)

    def _say_failed(self, error: BaseException) -> None:
        self._report.say(RankPhase.FAILED, self._cursor.step)
        if self._identity is None:
            return
        path = self._folder.rank_error(self._identity.attempt, self._rank())
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with contextlib.suppress(OSError):  # the error itself matters more, and is on its way to stderr
            make_directory_durably(path.parent)
            replace_durably(path, text.encode(errors="replace"))

    # The beginning.

    def _rank(self) -> int:
        return self._environment.rank if self._ranks is None else self._ranks.rank

    def _join(self) -> Ranks:
        """Meet the other ranks, once; in bare mode they learn from rank 0 which attempt this is."""
        if self._ranks is None:
            self._ranks = ranks = open_ranks(self._environment.world_size)
            self._report.rank = ranks.rank
            if not self._environment.supervised:
                self._identity = on_rank_zero(ranks, self._bare_identity)
        return self._ranks

    def _bare_identity(self) -> AttemptIdentity:
        return self._identity or begin_bare(self._folder, self._journal, self._environment)

    def _begun(self) -> Loops:
        if self._loops is None:
            self._loops = self._begin()
        return self._loops

    def _begin(self) -> Loops:
        begun = Beginning(
            self._settings,
            self._environment,
            self._join(),
            self._known().attempt,
            self._store,
            self._journal,
            self._clock,
            self._stop,
            self._report,
            self._cursor,
            self._state,
            metric=lambda: metric_of(self.metric),
            end=self._end,
        ).begin()
        self._boundary = begun.boundary
        self._background = begun.background
        self.resumed_from = begun.resumed_from
        return begun.loops
