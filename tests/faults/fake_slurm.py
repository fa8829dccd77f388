"""A Slurm of one's own for tests: the verbs of SlurmClient over a dictionary, with faults on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slurm_resilience.errors import SlurmRejected, SlurmUnavailable
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, SlurmConfiguration

CONFIGURATION = SlurmConfiguration(
    version="22.05.8",
    cluster="fake",
    kill_wait_s=30,
    job_requeue=True,
    preempt_mode="REQUEUE",
    proctrack="proctrack/linuxproc",
    over_time_limit_s=0,
    requeue_exit=(),
    max_batch_requeue=None,
)


def running(job: str = "7", **changed: object) -> JobRecord:
    record = JobRecord(
        job=JobRef(job),
        state=JobState.RUNNING,
        completing=False,
        held=False,
        reason="None",
        restarts=0,
        requeue=True,
        batch=True,
        start_s=0.0,
        end_s=None,
        preempted_s=None,
        partition="low",
        nodes="n[1-2]",
        batch_host="n1",
        exit_code=0,
        exit_signal=0,
    )
    return replace(record, **changed)  # type: ignore[arg-type]


@dataclass
class FakeSlurm:
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    silent_for: int = 0
    """How many more questions get no answer."""
    answer_lost: bool = False
    """The next requeue is done, but its answer doesn't arrive."""
    requeued: list[str] = field(default_factory=list)
    _queued_again: dict[str, int] = field(default_factory=dict)

    def job(self, job: JobRef) -> JobRecord | None:
        self._answer()
        return self.jobs.get(job)

    def configuration(self) -> SlurmConfiguration:
        self._answer()
        return CONFIGURATION

    def grace_time_s(self, partition: str) -> int:
        self._answer()
        grace_s = {"low": 15, "high": 0}.get(partition)
        if grace_s is None:
            raise SlurmRejected(f"Partition {partition} not found")
        return grace_s

    def requeue(self, job: JobRef) -> None:
        """As Slurm does it (docs/slurm_facts.md): what is cancelled or completed is queued again too."""
        self._answer()
        record = self.jobs.get(job)
        if record is None:
            raise SlurmRejected("Invalid job id specified")
        if record.state is JobState.PENDING or (record.completing and self._queued_again.get(job) == record.restarts):
            raise SlurmRejected(f"Job is pending execution for job {job}")
        if not record.requeue:
            raise SlurmRejected("Requested operation is presently disabled")
        # What runs is ended first: until then it is listed as completing, with no base state.
        runs = record.state is JobState.RUNNING or record.completing
        state = JobState.UNKNOWN if runs else JobState.PENDING
        self.jobs[job] = replace(
            record, state=state, completing=runs, restarts=record.restarts + 1, reason="None", preempted_s=None
        )
        self._queued_again[job] = record.restarts + 1
        self.requeued.append(job)
        if self.answer_lost:
            self.answer_lost = False
            raise SlurmUnavailable("the answer got lost")

    def _answer(self) -> None:
        if self.silent_for > 0:
            self.silent_for -= 1
            raise SlurmUnavailable("the controller is down")


@dataclass
class FakeClock:
    s: float = 1000.0

    def now_s(self) -> float:
        return self.s

    def monotonic_s(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.s += seconds
