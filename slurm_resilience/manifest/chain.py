"""The chain of a run's attempts, as its manifest tells it. Pure: lines in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slurm_resilience.manifest.checkpoint_history import (
    Checkpoint,
    CheckpointHistory,
    CheckpointState,
    Staged,
    live_of,
)
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointId,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointQuarantined,
    CheckpointReleased,
    CheckpointStaged,
    CheckpointUnpinned,
    CheckpointVerified,
    DecisionCarriedOut,
    GoOnAsked,
    Line,
    RunCreated,
    RunFinished,
    RunId,
    SaveFailed,
    StopAsked,
    SuccessorPlanned,
    SuccessorQueued,
    TrainingFinished,
)

__all__ = ["Attempt", "Chain", "Checkpoint", "CheckpointState", "Staged", "live_of"]


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    started: AttemptStarted
    started_s: float
    resumed: AttemptResumed | None = None
    stop_asked: StopAsked | None = None
    ended: AttemptEnded | None = None
    ended_s: float | None = None
    carried_out: DecisionCarriedOut | None = None
    finished_step: int | None = None
    """The step at which the training came to its own end, if it did in this attempt."""
    checkpoints: tuple[CheckpointCommitted, ...] = ()
    saves_failed: tuple[SaveFailed, ...] = ()
    gained: bool = False
    """Whether it committed a checkpoint of a step that no attempt had reached before."""
    successor_token: str | None = None
    """A successor was to be submitted under this token; None: none was planned."""
    successor: str | None = None
    """The successor's job, if its submission is told."""
    go_on_asked: str | None = None
    """Who has asked that the run goes on although it was stopped with this attempt; None: nobody."""
    quarantined: tuple[CheckpointId, ...] = ()
    """Checkpoints that its death gave reason to put into quarantine."""


@dataclass(frozen=True, slots=True)
class Chain:
    run_id: RunId
    name: str
    created_s: float
    attempts: tuple[Attempt, ...]
    checkpoints: tuple[Checkpoint, ...]
    """All there ever were, in the order of their commits."""
    finished: bool
    """The training came to its own end: this run is never started again."""
    staged: tuple[Staged, ...] = ()
    """Copies in second places, in the order of their coming, without those of damaged and forgotten checkpoints."""

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Chain:
        """`lines` as `Journal.read` returns them: the first one creates the run.

        A fact told twice counts once: a writer that couldn't learn whether it had written writes again.
        """
        return _Telling.of(lines)

    @property
    def newest_attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def attempt(self, number: int) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.number == number), None)

    def checkpoint(self, name: str) -> Checkpoint | None:
        """In whatever state it is; None: the manifest has never heard of it."""
        return next((each for each in self.checkpoints if each.committed.checkpoint == name), None)

    def loadable(self) -> tuple[Checkpoint, ...]:
        """What may be loaded, in the order to try it: by step, then by attempt, then as told, the newest first."""
        newest_first = reversed(self.checkpoints)
        live = [checkpoint for checkpoint in newest_first if checkpoint.state is CheckpointState.LIVE]
        return tuple(sorted(live, key=lambda c: (-c.committed.step, -c.committed.attempt)))

    @property
    def ever_had_checkpoint(self) -> bool:
        return bool(self.checkpoints)

    @property
    def next_step(self) -> int:
        """How many steps are behind us when the next attempt starts: 0 where nothing can be loaded."""
        loadable = self.loadable()
        return loadable[0].committed.step if loadable else 0

    def _without_progress(self) -> list[Attempt]:
        """The attempts that are over, newest first, back to the one that gained a step last.

        An attempt is over when its end is told or a newer one has started: one whose supervisor died unheard counts,
        or a run that always dies so would go on for ever.
        """
        stuck: list[Attempt] = []
        for attempt in reversed(self.attempts):
            if attempt.gained:
                break
            if attempt.ended is not None or attempt is not self.attempts[-1]:
                stuck.append(attempt)
        return stuck

    @property
    def attempts_without_progress(self) -> int:
        """Attempts that are over since a step was gained last, whatever ended them: the decision weighs the causes."""
        return len(self._without_progress())

    def count_since_progress(self, cause: Cause) -> int:
        """How many of the attempts without progress ended by `cause`."""
        return sum(a.ended is not None and a.ended.cause is cause for a in self._without_progress())

    def steps_lost(self, number: int) -> int | None:
        """Steps that attempt `number` had done and the next one to hold a state did again. None: not known (yet)."""
        attempt = self.attempt(number)
        if attempt is None or attempt.ended is None or attempt.ended.step is None:
            return None
        for later in self.attempts:
            if later.number > number and later.resumed is not None:
                return max(0, attempt.ended.step - later.resumed.step)
        return None


@dataclass(slots=True)
class _AttemptSoFar:
    started: AttemptStarted
    started_s: float
    resumed: AttemptResumed | None = None
    stop_asked: StopAsked | None = None
    ended: AttemptEnded | None = None
    ended_s: float | None = None
    carried_out: DecisionCarriedOut | None = None
    finished_step: int | None = None
    checkpoints: dict[CheckpointId, CheckpointCommitted] = field(default_factory=dict)
    saves_failed: dict[SaveFailed, None] = field(default_factory=dict)
    gained: bool = False
    successor_token: str | None = None
    successor: str | None = None
    go_on_asked: str | None = None
    quarantined: dict[CheckpointId, None] = field(default_factory=dict)

    def hear(
        self,
        record: AttemptResumed
        | SaveFailed
        | StopAsked
        | TrainingFinished
        | SuccessorPlanned
        | SuccessorQueued
        | AttemptEnded
        | GoOnAsked
        | DecisionCarriedOut,
        time_s: float,
    ) -> None:
        """The first word about stop, end and what was done then counts; the last about where it resumed."""
        match record:
            case AttemptResumed():
                self.resumed = record
            case SaveFailed():
                self.saves_failed[record] = None
            case StopAsked():
                self.stop_asked = self.stop_asked or record
            case TrainingFinished():
                self.finished_step = record.step
            case SuccessorPlanned():
                self.successor_token = record.token
            case SuccessorQueued():
                self.successor = record.job
            case AttemptEnded():
                if self.ended is None:
                    self.ended, self.ended_s = record, time_s
            case GoOnAsked():
                self.go_on_asked = record.by
            case DecisionCarriedOut():
                self.carried_out = self.carried_out or record

    def told(self) -> Attempt:
        return Attempt(
            self.started.attempt,
            self.started,
            self.started_s,
            self.resumed,
            self.stop_asked,
            self.ended,
            self.ended_s,
            self.carried_out,
            self.finished_step,
            tuple(self.checkpoints.values()),
            tuple(self.saves_failed),
            self.gained,
            self.successor_token,
            self.successor,
            self.go_on_asked,
            tuple(self.quarantined),
        )


@dataclass(slots=True)
class _Telling:
    """The chain while its lines are being told."""

    attempts: dict[int, _AttemptSoFar] = field(default_factory=dict)
    checkpoints: CheckpointHistory = field(default_factory=CheckpointHistory)
    furthest_step: int = 0
    finished: bool = False

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Chain:
        told = iter(lines)
        first = next(told, None)
        if first is None or not isinstance(first.record, RunCreated):
            raise ValueError("a chain begins with the line that creates its run")
        telling = cls()
        for line in told:
            telling.take(line)
        return Chain(
            first.record.run_id,
            first.record.name,
            first.time_s,
            tuple(so_far.told() for _, so_far in sorted(telling.attempts.items())),
            telling.checkpoints.checkpoints(),
            telling.finished,
            telling.checkpoints.staged(),
        )

    def take(self, line: Line) -> None:
        match line.record:
            case RunCreated():
                raise ValueError("a run is created once")
            case AttemptStarted() as record:
                self.attempts.setdefault(record.attempt, _AttemptSoFar(record, line.time_s))
            case CheckpointCommitted() as record:
                self._commit(record, line.time_s)
            case (
                CheckpointStaged()
                | CheckpointPublished()
                | CheckpointVerified()
                | CheckpointPinned()
                | CheckpointUnpinned()
                | CheckpointDamaged()
                | CheckpointQuarantined()
                | CheckpointReleased()
                | CheckpointForgotten()
            ) as record:
                self.checkpoints.hear(record, line.time_s)
                if isinstance(record, CheckpointQuarantined) and record.attempt in self.attempts:
                    self.attempts[record.attempt].quarantined[record.checkpoint] = None
            case RunFinished():
                self.finished = True
            case record:
                if isinstance(record, TrainingFinished):
                    self.finished = True
                if isinstance(record, AttemptResumed):
                    # Where it starts from is no progress, even if that came from outside of this run.
                    self.furthest_step = max(self.furthest_step, record.step)
                    if record.checkpoint is not None:
                        self.checkpoints.verify(record.checkpoint)  # every rank has read its part whole
                if record.attempt in self.attempts:
                    self.attempts[record.attempt].hear(record, line.time_s)

    def _commit(self, record: CheckpointCommitted, time_s: float) -> None:
        self.checkpoints.commit(record, time_s)
        attempt = self.attempts.get(record.attempt)
        if attempt is not None:
            attempt.checkpoints[record.checkpoint] = record
            attempt.gained = attempt.gained or record.step > self.furthest_step
        self.furthest_step = max(self.furthest_step, record.step)
