"""A Slurm of one's own for tests: the verbs of SlurmClient over a dictionary, with faults on demand."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ClusterShell.NodeSet import NodeSet

from slurm_resilience.errors import SlurmRejected, SlurmUnavailable
from slurm_resilience.slurm.client import (
    JobRecord,
    JobRef,
    JobState,
    NodeRecord,
    PartitionRecord,
    PastLife,
    QosRecord,
    SlurmConfiguration,
    Submission,
)

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
    preempt_type="preempt/partition_prio",
)

_NOT_ASKED_AGAIN = ("--array", "--begin", "--dependency", "--exclude", "--hold")


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
    """The next requeue or submission is done, but its answer doesn't arrive."""
    requeued: list[str] = field(default_factory=list)
    submitted: dict[str, Submission] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    signalled: list[tuple[str, str, str]] = field(default_factory=list)
    excluded: dict[str, frozenset[str]] = field(default_factory=dict)
    started_now: list[str] = field(default_factory=list)
    accounting: dict[str, tuple[PastLife, ...]] | None = None
    node_records: dict[str, NodeRecord] = field(default_factory=dict)
    configured: SlurmConfiguration = CONFIGURATION
    _queued_again: dict[str, int] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))

    def job(self, job: JobRef) -> JobRecord | None:
        self._answer()
        return self.jobs.get(job)

    def my_jobs(self) -> tuple[JobRecord, ...]:
        self._answer()
        return tuple(self.jobs.values())

    def lives(self, job: JobRef) -> tuple[PastLife, ...] | None:
        self._answer()
        return None if self.accounting is None else self.accounting.get(job, ())

    def configuration(self) -> SlurmConfiguration:
        self._answer()
        return self.configured

    def partition(self, name: str) -> PartitionRecord:
        self._answer()
        grace_s = {"low": 15, "high": 0}.get(name)
        if grace_s is None:
            raise SlurmRejected(f"Partition {name} not found")
        return PartitionRecord(name, grace_s, "REQUEUE", None, None)

    def qos(self, name: str) -> QosRecord | None:
        self._answer()
        return None

    def nodes(self, names: str) -> tuple[NodeRecord, ...]:
        self._answer()
        asked = NodeSet(names)
        return tuple(record for name, record in self.node_records.items() if name in asked)

    def answers(self) -> bool:
        return self.silent_for == 0

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
        # What runs is ended first: until then it is listed as completing, with no base state. How it ended stays.
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

    def requeue_hold(self, job: JobRef) -> None:
        self.requeue(job)
        self.jobs[job] = replace(self.jobs[job], held=True, reason="job requeued in held state")

    def cancel(self, job: JobRef) -> None:
        """Nothing is said of a job that is over, or that nobody knows."""
        self._answer()
        record = self.jobs.get(job)
        if record is None:
            return
        if record.state in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED) or record.completing:
            number = 0 if record.state is JobState.PENDING else 15
            self.jobs[job] = replace(record, state=JobState.CANCELLED, completing=False, held=False, exit_signal=number)
            self.cancelled.append(job)
        array, _, task = job.partition("_")
        if task and record.state is JobState.PENDING:  # an element that never started is listed as the array it was in
            self.jobs[JobRef(array)] = replace(self.jobs.pop(job), job=JobRef(array))

    def signal(self, job: JobRef, name: str, *, to: str) -> None:
        self._answer()
        record = self._known(job)
        if record.state is not JobState.RUNNING:
            raise SlurmRejected(f"job {job} runs no step that a signal could be sent to: it is {record.state.value}")
        if to not in ("steps", "batch") and not to.isdigit():
            raise ValueError(f"a signal goes to steps, to batch or to the number of a step, not to {to!r}")
        self.signalled.append((job, name, to))

    def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
        record = self.jobs.get(job)
        if record is not None and record.completing and self._queued_again.get(job) == record.restarts:
            self._answer()  # it waits already, although it is still listed as completing
        else:
            self._pending(job)
        if self.node_records and not set(nodes) <= set(self.node_records):
            raise SlurmRejected(f"Invalid node name specified for job {job}")
        self.excluded[job] = self.excluded.get(job, frozenset()) | frozenset(nodes)

    def start_now(self, job: JobRef) -> None:
        record = self._pending(job)
        self.started_now.append(job)
        if record.reason == "BeginTime":
            self.jobs[job] = replace(record, reason="None")

    def start(self, job: JobRef) -> None:
        """Nobody's verb: the scheduler lets a pending job run."""
        record = self.jobs[job]
        assert record.state is JobState.PENDING
        assert not record.held
        assert not record.dependency
        self.jobs[job] = running(
            job,
            restarts=record.restarts,
            requeue=record.requeue,
            comment=record.comment,
            partition=record.partition,
        )

    def depend_on(self, job: JobRef, dependency: str) -> None:
        record = self._pending(job)
        self.jobs[job] = replace(
            record, dependency=_unfulfilled(dependency), reason="Dependency" if dependency else "None"
        )

    def may_requeue(self, job: JobRef, allowed: bool) -> None:
        self._answer()
        self.jobs[job] = replace(self._known(job), requeue=allowed)

    def batch_script(self, job: JobRef) -> str:
        self._answer()
        self._known(job)
        return self.submitted[job].script if job in self.submitted else "#!/bin/bash\nexec srun-resilient train.py\n"

    def asked_for(self, job: JobRef) -> tuple[str, ...]:
        self._answer()
        record = self._known(job)
        if job in self.submitted:
            by_name = {option.partition("=")[0]: option for option in self.submitted[job].options}
            given = tuple(option for name, option in by_name.items() if name not in _NOT_ASKED_AGAIN)
        else:
            comment = (f"--comment={record.comment}",) if record.comment else ()
            given = (f"--partition={record.partition}", "--nodes=2", *comment)
        excluded = self._excluded(job)
        return (*given, f"--exclude={NodeSet.fromlist(sorted(excluded))}") if excluded else given

    def _excluded(self, job: JobRef) -> frozenset[str]:
        submission = self.submitted.get(job)
        lists = [] if submission is None else [o for o in submission.options if o.startswith("--exclude=")]
        at_first = frozenset(NodeSet(lists[-1].partition("=")[2])) if lists else frozenset()
        return self.excluded.get(job, frozenset()) | at_first

    def submit(self, submission: Submission) -> JobRef:
        self._answer()
        options = dict(option.removeprefix("--").partition("=")[::2] for option in submission.options)
        partition = options.get("partition", "low")
        if partition not in ("low", "high"):
            raise SlurmRejected("Batch job submission failed: Invalid partition name specified")
        number = str(next(self._numbers))
        job = JobRef(f"{number}_{options['array']}" if "array" in options else number)
        dependency = options.get("dependency", "")
        self.jobs[job] = running(
            job,
            state=JobState.PENDING,
            held="hold" in options,
            reason="Dependency" if dependency else "JobHeldUser" if "hold" in options else "Priority",
            partition=partition,
            nodes="",
            batch_host="",
            start_s=None,
            dependency=_unfulfilled(dependency),
            comment=options.get("comment", ""),
            requeue="no-requeue" not in options,
        )
        self.submitted[job] = submission
        if self.answer_lost:
            self.answer_lost = False
            raise SlurmUnavailable("the answer got lost")
        return job

    def _known(self, job: JobRef) -> JobRecord:
        record = self.jobs.get(job)
        if record is None:
            raise SlurmRejected(f"Invalid job id specified for job {job}")
        return record

    def _pending(self, job: JobRef) -> JobRecord:
        self._answer()
        record = self._known(job)
        if record.state is not JobState.PENDING:
            raise SlurmRejected(f"Job is no longer pending execution for job {job}")
        return record

    def _answer(self) -> None:
        if self.silent_for > 0:
            self.silent_for -= 1
            raise SlurmUnavailable("the controller is down")


def _unfulfilled(dependency: str) -> str:
    """As squeue shows what was asked for."""
    return re.sub(r"(\w+:[\d_]+)", r"\1(unfulfilled)", dependency)


@dataclass
class FakeClock:
    s: float = 1000.0

    def now_s(self) -> float:
        return self.s

    def monotonic_s(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.s += seconds
