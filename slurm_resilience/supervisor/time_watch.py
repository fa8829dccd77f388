"""Whether the job's time ends when we think: asked again while it runs, and told to the node agents when it moved.

A limit is raised or lowered by `scontrol update TimeLimit`, by an administrator or by the user. Looked after beside the
step (`StepWatch.beside`); see signals/time_left.py for when Slurm is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.errors import SlurmError
from slurm_resilience.launch.end_of_time import EndOfTime, write_end_of_time
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.ladder import Asked, Measured, SlurmTimes, lead_s
from slurm_resilience.signals.time_left import Bearing, has_moved, next_look_s, take_bearing
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, SlurmClient
from slurm_resilience.supervisor.question import Question


def end_told_by(record: JobRecord | None, restarts: int) -> float | None:
    """The end of the running job's time limit, as this record has it; None: it says nothing about it.

    A preemption moves EndTime, too: to the end of its grace, which the agents hear of by SIGTERM. It is no new limit.
    A job that is being ended or queued again shows the end of something else.
    """
    if record is None or record.state is not JobState.RUNNING or record.completing:
        return None
    if record.preempted_s is not None or record.restarts > restarts:
        return None
    return record.end_s


@dataclass
class TimeWatch:
    """`tend` is called a few times a second, never waits and never raises."""

    path: Path
    ask: Callable[[], JobRecord | None]
    times: SlurmTimes
    """As they are known now."""
    lead_s: Callable[[SlurmTimes], float]
    restarts: int
    clock: Clock
    bearing: Bearing
    say: Callable[[str], None]
    _question: Question[JobRecord | None] = field(default_factory=lambda: Question("end of time"))
    _look_s: float | None = None
    _complained: bool = False

    @property
    def end_s(self) -> float | None:
        """When the job's time is over, seconds since the epoch by the controller's clock."""
        return self.times.end_s

    def tend(self) -> None:
        answer = self._question.answer()
        if answer is not None:
            self._take(answer)
        if self._question.under_way:
            return
        now_s = self.clock.monotonic_s()
        if self._look_s is None:
            self._look_s = now_s + next_look_s(self._left_s(now_s))
        elif now_s >= self._look_s:
            self._question.ask(self.ask)
            self._look_s = None

    def settle(self, seconds: float) -> None:
        """Before the next step is started in place: no thread of ours may be about."""
        self._question.settle(seconds)

    def _left_s(self, now_s: float) -> float | None:
        """Until the ranks are asked to stop."""
        if self.times.end_s is None:
            return None
        return self.times.end_s - self.lead_s(self.times) - self.bearing.wall_s(now_s)

    def _take(self, answer: JobRecord | SlurmError) -> None:
        if isinstance(answer, SlurmError):
            if not self._complained:
                self._complained = True
                self.say(f"Slurm can't be asked whether the job's time limit was changed: {answer}")
            return
        self._complained = False
        told_s = end_told_by(answer, self.restarts)
        if told_s is None or not has_moved(self.times.end_s, told_s):
            return
        times = replace(self.times, end_s=told_s)
        try:
            write_end_of_time(self.path, EndOfTime(told_s, self.lead_s(times)))
        except OSError as error:
            self.say(f"the new end of the job's time can't be told to the node agents: {error}")
            return  # known to us is what they know: it is told again after the next look
        self.times = times
        left_s = told_s - self.bearing.wall_s(self.clock.monotonic_s())
        self.say(f"the job's time limit was changed: it is over in {left_s:.0f} s")


def watch_time(
    run: RunDirectory,
    attempt: int,
    slurm: SlurmClient | None,
    job: JobRef | None,
    times: SlurmTimes,
    measured: Measured,
    asked: Asked,
    *,
    restarts: int,
    clock: Clock,
    say: Callable[[str], None],
) -> TimeWatch | None:
    """None: there is no job whose time we could ask for."""
    if slurm is None or job is None:
        return None
    client, ours = slurm, job
    bearing = take_bearing(monotonic_s=clock.monotonic_s(), wall_s=clock.now_s(), start_s=times.start_s)
    return TimeWatch(
        run.end_of_time(attempt),
        lambda: client.job(ours),
        times,
        lambda known: lead_s(known, measured, asked)[0],
        restarts,
        clock,
        bearing,
        say,
    )
