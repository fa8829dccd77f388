"""How an attempt's training begins: come back, clear away, and put together what the loops need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.checkpoint.space.ballast import DEFAULT_CAP_BYTES
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.clock import Clock
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.training.background import BackgroundSaver
from slurm_resilience.training.boundary import Boundary
from slurm_resilience.training.cursor import Cursor, Position
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.homecoming import Homecoming
from slurm_resilience.training.job_end import JobEnd
from slurm_resilience.training.loops import Loops
from slurm_resilience.training.part_loading import PartLoading
from slurm_resilience.training.rank_report import RankReport
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.resumption import Resumed, Resumption
from slurm_resilience.training.rhythm import SaveRhythm, TimeLimit
from slurm_resilience.training.room_keeping import RoomKeeping, RoomSettings, keep_room
from slurm_resilience.training.savers import Surroundings, make_savers
from slurm_resilience.training.settings import RunSettings
from slurm_resilience.training.stop_source import StopSource
from slurm_resilience.training.sweeper import Sweeper
from slurm_resilience.training.training_state import TrainingState


@dataclass(frozen=True, slots=True)
class Begun:
    loops: Loops
    boundary: Boundary
    background: BackgroundSaver | None
    resumed_from: str | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is there before the first loop."""

    settings: RunSettings
    environment: Environment
    ranks: Ranks
    attempt: int
    store: CheckpointStore
    journal: Journal
    clock: Clock
    stop: StopSource
    report: RankReport
    cursor: Cursor
    state: TrainingState
    metric: Callable[[], float | None]
    end: JobEnd

    def begin(self) -> Begun:
        """Called by all ranks at once. Raises what coming back raises, and what `make_savers` does."""
        sweeper = Sweeper(self.journal, self.store, attempt=self.attempt, policy=self.settings.keep)
        keeping = self._keep_room()
        resumed = self._come_back(keeping.homecoming())
        if self.ranks.rank == 0:
            sweeper.sweep_leftovers()
        savers = make_savers(
            Surroundings(self.ranks, self.store, self.journal, self.attempt, self.clock, self.environment),
            self.settings.snapshots,
            state=self.state.capture(),  # what can't be saved is said now, not after the first ten minutes
            objects=self.state.objects,
            after_commit=sweeper.after_commit,
            keeping=keeping,
        )
        boundary = Boundary(
            ranks=self.ranks,
            stop=self.stop,
            savers=savers,
            journal=self.journal,
            attempt=self.attempt,
            rhythm=self._rhythm(),
            report=self.report,
            cursor=self.cursor,
            clock=self.clock,
            state=self.state.capture,
            metric=self.metric,
            saved_step=None if resumed is None else resumed.step,
            finished_before=resumed is not None and resumed.finished,
            wait_for_saves=self.settings.snapshots.wait,
            limit=self._limit,
        )
        loops = Loops(
            cursor=self.cursor,
            boundary=boundary,
            state=self.state,
            rank=self.ranks.rank,
            loaded=None if resumed is None else resumed.state,
        )
        return Begun(loops, boundary, savers.background, None if resumed is None else resumed.checkpoint)

    def _rhythm(self) -> SaveRhythm:
        """Only rank 0's clock counts: it alone works out how often."""
        rhythm, pace = self.settings.rhythm, self.settings.pace
        if pace is None or self.ranks.rank != 0:
            return rhythm
        return pace.applied(rhythm, Chain.of(self.journal.read()), self.environment)

    def _limit(self) -> TimeLimit | None:
        """Only where nobody manages us: otherwise a stop comes in time, and saves."""
        if self.settings.pace is None or self.environment.supervised or self.ranks.rank != 0:
            return None
        end_s = self.end.monotonic_s()
        return None if end_s is None else TimeLimit(end_s)

    def _keep_room(self) -> RoomKeeping:
        cap_bytes = self.environment.ballast_cap_bytes
        settings = RoomSettings(
            self.settings.keep,
            DEFAULT_CAP_BYTES if cap_bytes is None else cap_bytes,
            self.environment.second_place or self.settings.second_place,
        )
        return keep_room(
            settings, ranks=self.ranks, journal=self.journal, store=self.store, attempt=self.attempt, clock=self.clock
        )

    def _come_back(self, homecoming: Homecoming) -> Resumed | None:
        loading = PartLoading(
            self.store,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            alive=self.state.layouts,
            may_change=self.environment.world_size_may_change,
        )
        resumption = Resumption(
            ranks=self.ranks,
            loading=loading,
            journal=self.journal,
            attempt=self.attempt,
            clock=self.clock,
            from_scratch=self.settings.from_scratch,
            homecoming=homecoming,
        )
        resumed = resumption.find(self.state.names)
        if resumed is not None:
            self.report.saved_step = resumed.step
            self.cursor.return_to(Position.of_state(resumed.state["position"]), finished=resumed.finished)
            self.state.apply(resumed.state, resumed.checkpoint)
        return resumed
