"""A fake Slurm that starts, ends and queues jobs again by itself, in virtual time, as docs/slurm_facts.md has it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from signal import SIGTERM

from slurm_resilience.errors import SlurmRejected, SlurmUnavailable
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, PartitionRecord, PastLife, Submission
from slurm_resilience.supervisor.ownership import OVER
from slurm_resilience.triage.versions import Left, fate, mode_of
from tests.faults.fake_slurm import CONFIGURATION, FakeSlurm, running
from tests.faults.world.clock import Process, VirtualTime
from tests.faults.world.faults import Setting
from tests.faults.world.training import Training

KILL_WAIT_S = 30
BUSY_S = 1500.0
REQUEUE_DELAY_S = 121.0
TIME_LIMIT_S = 3600.0
NO_ANSWER_S = 9.0
MAX_REQUEUE = 5
OWNER, ADMIN = 1000, 0
NODES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7")


@dataclass(eq=False)
class Life:
    """A job from its start to its end: what runs of it, and what Slurm is about to do with it."""

    job: JobRef
    restarts: int
    nodes: tuple[str, ...]
    start_s: float
    queued_by: str
    """ours, person or slurm: who is why it started."""
    batch: Process | None = None
    training: Training | None = None
    deputy: Process | None = None
    attempt: int | None = None
    ending: str = ""
    """How Slurm is ending it: requeued, cancelled, timeout, preempted, node."""
    requeued: bool = False
    cancelled_s: float | None = None
    cancelled_by: int | None = None
    ghost: bool = False
    """Slurm has given it up, and it lives on."""
    cut_off_at_a_word: bool = False
    """At its batch script's next word to Slurm that changes something."""
    cut_off_until_s: float = 0.0
    """Its node and the controller don't hear each other; files and other nodes it sees."""
    over: bool = False
    kill_deputy_at: int | None = None

    @property
    def name(self) -> str:
        return f"{self.job}#{self.restarts}"

    @property
    def processes(self) -> list[Process]:
        return [each for each in (self.batch, self.deputy) if each is not None]


@dataclass(frozen=True, slots=True)
class Requeued:
    """A requeue that was accepted."""

    by: Process | None
    job: str
    life: Life | None
    """Which ran; None: nothing of the job did."""
    restarts: int
    """Before."""


@dataclass
class Hooks:
    batch: Callable[[Life], Process]
    deputy: Callable[[Life], Process]
    tell: Callable[[str], None]
    requeued: Callable[[Requeued], None]
    cancelling: Callable[[Process, JobRecord], None]


class Cluster(FakeSlurm):
    def __init__(self, time: VirtualTime, setting: Setting, dice: random.Random, hooks: Hooks) -> None:
        self.mode = "CANCEL" if setting.cancel_partition else "REQUEUE"
        super().__init__(
            configured=replace(
                CONFIGURATION,
                version=setting.version,
                kill_wait_s=KILL_WAIT_S,
                accounting=setting.accounting,
                requeue_exit=setting.requeue_exit,
                preempt_mode=self.mode,
            ),
            accounting={} if setting.accounting else None,
        )
        self.time = time
        self.setting = setting
        self.dice = dice
        self.hooks = hooks
        self.under_way: dict[str, Life] = {}
        """Running or completing."""
        self.ghosts: list[Life] = []
        self.begin_s: dict[str, float] = {}
        self.queued_by: dict[str, str] = {}
        self.environments: dict[str, dict[str, str]] = {}
        self.counted: dict[str, int] = {}
        self.silent_until_s = 0.0
        self.lose_next = False
        self.last_silence_s: float | None = None
        self._has_waited: set[str] = set()
        self.down: set[str] = set()
        """Nodes that get no jobs: lost, or cut off with something that lives on there."""

    # What a process of ours asks.

    def _answer(self) -> None:
        process = self.time.current
        if process is None:
            return
        if process.is_here:
            latest_s = 3.0 if self.setting.late_answers else 0.3
            process.sleep(self.dice.uniform(0.02, latest_s))
        cut_off = any(process in life.processes and self.time.now_s < life.cut_off_until_s for life in self.ghosts)
        if cut_off or self.silent_for > 0 or self.time.now_s < self.silent_until_s:
            if not cut_off:
                self.silent_for = max(0, self.silent_for - 1)
                self.last_silence_s = self.time.now_s
            if process.is_here:
                process.sleep(NO_ANSWER_S)
            raise SlurmUnavailable("the controller is down")

    def _before(self, verb: str) -> None:
        self._count_down("before", verb)
        life = next((life for life in self.under_way.values() if life.batch is self.time.current), None)
        if life is not None and life.cut_off_at_a_word:
            life.cut_off_at_a_word = False
            self.hooks.tell(f"job {life.name} is cut off before {verb}")
            self.lose_the_batch_node(life, lives_on=True)

    def _after(self, verb: str) -> None:
        self._count_down("after", verb)
        if self.time.current is not None and self.lose_next:
            self.lose_next = False
            self.hooks.tell(f"the answer to {verb} got lost")
            raise SlurmUnavailable("the answer got lost")

    def _count_down(self, where: str, verb: str) -> None:
        process = self.time.current
        if process is None or not process.is_here or process.calls_left is None or process.calls_left[1] != where:
            return
        left = process.calls_left[0] - 1
        process.calls_left = (left, where) if left else None
        if not left:
            process.kill(f"{where} {verb}")

    def job(self, job: JobRef) -> JobRecord | None:
        record = super().job(job)
        if self.time.current is not None:
            self.time.current.last_look_s = self.time.now_s
        return record

    def my_jobs(self) -> tuple[JobRecord, ...]:
        records = super().my_jobs()
        if self.time.current is not None:
            self.time.current.last_look_s = self.time.now_s
        return records

    def partition(self, name: str) -> PartitionRecord:
        self._answer()
        return PartitionRecord(name, self.setting.grace_s, self.mode, None, None)

    def requeue(self, job: JobRef) -> None:
        self._before("requeue")
        super().requeue(job)
        by = "ours" if self.time.current is not None and not self.time.current.name.startswith("anyway") else "person"
        life, restarts = self.under_way.get(job), self.jobs[job].restarts - 1
        self.hooks.requeued(Requeued(self.time.current, job, life, restarts))
        self._queue_again(job, by)
        self._after("requeue")

    def cancel(self, job: JobRef) -> None:
        self._before("cancel")
        record = self.jobs.get(job)
        super().cancel(job)
        if self.time.current is not None and record is not None:
            self.hooks.cancelling(self.time.current, record)
        self._cancelled(job, OWNER)
        self._after("cancel")

    def submit(self, submission: Submission) -> JobRef:
        self._before("submit")
        job = super().submit(submission)
        self.queued_by[job] = "ours"
        self.environments[job] = dict(submission.environment)
        self.hooks.tell(f"job {job} is submitted, {self.jobs[job].dependency}")
        self._poke()
        self._after("submit")
        return job

    def depend_on(self, job: JobRef, dependency: str) -> None:
        self._before("depend_on")
        super().depend_on(job, dependency)
        self.hooks.tell(f"job {job} waits for {dependency}")
        self._poke()
        self._after("depend_on")

    def may_requeue(self, job: JobRef, allowed: bool) -> None:
        self._before("may_requeue")
        super().may_requeue(job, allowed)
        self._after("may_requeue")

    # What people and Slurm itself do.

    def submit_by_hand(self, job: str, environment: dict[str, str]) -> None:
        self.jobs[JobRef(job)] = running(
            job, state=JobState.PENDING, reason="Priority", nodes="", batch_host="", start_s=None
        )
        self.queued_by[job], self.environments[job] = "person", environment
        self.hooks.tell(f"a person submits job {job}")
        self._poke()

    def requeue_by_hand(self, job: JobRef) -> bool:
        try:
            super().requeue(job)
        except SlurmRejected:
            return False
        self.hooks.tell(f"a person requeues job {job}")
        self._queue_again(job, "person")
        return True

    def cancel_by_hand(self, job: JobRef, by: int) -> bool:
        """False: it is being ended already, and not queued again."""
        life = self.under_way.get(job)
        if life is not None and life.ending and not life.requeued:
            return False
        super().cancel(job)
        self.hooks.tell(f"user {by} cancels job {job}")
        self._cancelled(job, by)
        return True

    def hold(self, job: JobRef, seconds: float) -> None:
        self._change(job, held=True, reason="JobHeldUser")
        self.time.after(seconds, lambda: self.release(job))

    def release(self, job: JobRef) -> None:
        record = self.jobs.get(job)
        if record is not None and record.state is JobState.PENDING and record.held:
            self._change(job, held=False, reason="Priority")
            self._poke()

    def purge(self, older_s: float = 0.0) -> int:
        """MinJobAge: what is over is forgotten."""
        over = [job for job, record in self.jobs.items() if record.state in OVER and job not in self.under_way]
        gone = [job for job in over if (self.jobs[job].end_s or 0.0) + older_s <= self.time.now_s]
        for job in gone:
            del self.jobs[job]
        if gone:
            self._poke()
        return len(gone)

    def preempt(self, life: Life) -> None:
        record = self.jobs[life.job]
        if life.ending or record.preempted_s is not None:
            return
        grace_s = self.setting.grace_s
        self._change(life.job, preempted_s=self.time.now_s, end_s=self.time.now_s + grace_s)
        if grace_s:
            self._hear(life, "SIGTERM to the steps")
            self.time.after(grace_s + self.dice.uniform(0, 25), lambda: self._end_of_grace(life))
        else:
            self._end_of_grace(life)

    def _end_of_grace(self, life: Life) -> None:
        if life.over or life.ending:
            return
        if self.mode == "REQUEUE" and self.jobs[life.job].requeue:
            self._put_back(life, "the end of its grace")
        else:
            self._change(life.job, preempted_s=self.time.now_s, end_s=self.time.now_s)
            self._end(life, "preempted")

    def limit(self, life: Life, left_s: float) -> None:
        """Its time is over in `left_s`; by scontrol, or because that was its limit."""
        end_s = self.time.now_s + left_s
        self._change(life.job, end_s=end_s)
        self.time.after(left_s + self.dice.uniform(0, 25), lambda: self._time_is_over(life, end_s))

    def _time_is_over(self, life: Life, end_s: float) -> None:
        if not life.over and not life.ending and self.jobs[life.job].end_s == end_s:
            self._change(life.job, reason="TimeLimit", end_s=self.time.now_s)
            self._end(life, "timeout")

    def lose_a_node(self, life: Life) -> None:
        if life.ending:
            return
        if life.training is not None:
            life.training.lose_node(1)
        if self.jobs[life.job].requeue:
            self._put_back(life, "the loss of a node")
        else:
            self._change(life.job, reason="NodeDown")
            self._end(life, "node")

    def lose_the_batch_node(self, life: Life, *, lives_on: bool) -> None:
        """No signal to anything. Nothing of it runs any more, unless it is only that nobody hears of it."""
        life.over, life.ghost = True, lives_on
        del self.under_way[life.job]
        if lives_on:
            self.ghosts.append(life)
            seconds = self.dice.uniform(60, 900)
            life.cut_off_until_s = self.time.now_s + seconds * self.dice.uniform(0, 1)
            self._down(life.nodes[0], seconds, life)
        else:
            self.kill_all(life)
        record = self.jobs[life.job]
        if record.requeue and not life.ending:
            self.jobs[life.job] = replace(record, restarts=record.restarts + 1, preempted_s=None)
            self.queued_by[life.job] = "slurm"
            self._close_life(life, JobState.NODE_FAIL)
            self._pend(life.job)
        elif life.requeued:
            self._close_life(life, JobState.NODE_FAIL)
            self._pend(life.job)
        else:
            state = JobState.CANCELLED if life.cancelled_s is not None else JobState.NODE_FAIL
            self._change(life.job, state=state, completing=False, end_s=self.time.now_s)
            self._close_life(life, state)
            self._forget_later()
        self._poke()

    def _down(self, node: str, seconds: float, life: Life) -> None:
        """When it is back, its slurmd ends what Slurm doesn't know any more."""

        def back() -> None:
            self.kill_all(life)
            self.time.after(1.0, lambda: self.down.discard(node))
            self.time.after(1.5, self._consider)

        self.down.add(node)
        self.time.after(seconds, back)

    def kill_all(self, life: Life) -> None:
        for process in life.processes:
            process.kill()
        if life.training is not None:
            life.training.kill()
        if not life.over:
            self.time.after(1.0, lambda: self._settle(life))

    # How a life begins, and how it ends.

    def _poke(self) -> None:
        self.time.after(self.dice.uniform(0.3, 2.0), self._consider)

    def _consider(self) -> None:
        for job in list(self.jobs):
            record = self.jobs.get(job)
            if record is None or record.state is not JobState.PENDING or record.held or job in self.under_way:
                continue
            if self.begin_s.get(job, 0.0) > self.time.now_s or not self._fulfilled(record):
                continue
            if self.setting.busy and job not in self._has_waited:
                self._has_waited.add(job)
                self.begin_s[job] = self.time.now_s + self.dice.uniform(0, BUSY_S)
                self.time.after(self.begin_s[job] - self.time.now_s + 0.1, self._consider)
                continue
            self._has_waited.discard(job)
            self._start(JobRef(job))

    def _fulfilled(self, record: JobRecord) -> bool:
        if not record.dependency:
            return True
        others = [each for each in self.jobs.values() if each.job != record.job]
        if "singleton" in record.dependency:
            number = _number(record.job)
            return not any(
                each.job in self.under_way or (each.state is JobState.PENDING and _number(each.job) < number)
                for each in others
            )
        wanted = re.findall(r":([\d_]+)", record.dependency)
        return all(job not in self.under_way and self._is_over(job) for job in wanted)

    def _is_over(self, job: str) -> bool:
        record = self.jobs.get(JobRef(job))
        return record is None or record.state in OVER

    def _start(self, job: JobRef) -> None:
        if len(NODES) - len(self.down) < 2:
            return
        record = self.jobs[job]
        nodes = tuple(self.dice.sample([node for node in NODES if node not in self.down], 2))
        now_s = self.time.now_s
        self.jobs[job] = replace(
            record,
            state=JobState.RUNNING,
            reason="None",
            dependency="",
            start_s=now_s,
            end_s=now_s + TIME_LIMIT_S,
            nodes=f"n[{','.join(sorted(node[1:] for node in nodes))}]",
            batch_host=nodes[0],
            preempted_s=None,
            exit_code=0,
            exit_signal=0,
        )
        life = Life(job, record.restarts, nodes, now_s, self.queued_by.get(job, "slurm"))
        self.under_way[job] = life
        self._queued_again.pop(job, None)
        if self.accounting is not None:
            past = PastLife(JobState.RUNNING, None, 0, 0, now_s, None, self.jobs[job].nodes, "None")
            self.accounting[job] = (*self.accounting.get(job, ()), past)
        self.hooks.tell(f"job {life.name} starts on {nodes[0]} and {nodes[1]}")
        self.limit(life, TIME_LIMIT_S)
        life.batch = self.hooks.batch(life)
        life.batch.start()

    def _hear(self, life: Life, because: str) -> None:
        if life.training is not None:
            life.training.hear("TERMINATION", because)

    def _queue_again(self, job: JobRef, by: str) -> None:
        self.queued_by[job] = by
        life = self.under_way.get(job)
        if life is None:
            self._pend(job)
            return
        life.requeued, life.cancelled_s = True, None
        self._end(life, "requeued")

    def _put_back(self, life: Life, why: str) -> None:
        record = self.jobs[life.job]
        self.jobs[life.job] = replace(record, restarts=record.restarts + 1, preempted_s=None)
        self._queued_again[life.job] = record.restarts + 1
        self.queued_by[life.job] = "slurm"
        self.hooks.tell(f"Slurm queues job {life.name} again: {why}")
        life.requeued = True
        self._end(life, "requeued")

    def _cancelled(self, job: JobRef, by: int) -> None:
        life = self.under_way.get(job)
        if life is None:
            self._poke()
            return
        life.requeued, life.cancelled_s, life.cancelled_by = False, self.time.now_s, by
        self._end(life, "cancelled")

    def _end(self, life: Life, how: str) -> None:
        first = not life.ending
        life.ending = life.ending or how
        self._change(life.job, state=JobState.UNKNOWN, completing=True, end_s=self.time.now_s)
        if not first:
            return
        if life.batch is not None and not life.batch.over:
            life.batch.signals.append(SIGTERM)
            life.batch.interrupt()
        self._hear(life, "SIGTERM")
        self.time.after(KILL_WAIT_S, lambda: self.kill_all(life))

    def batch_is_over(self, life: Life) -> None:
        """What still runs of its steps is ended, too."""
        if life.over:
            return
        if not life.ending:
            self._change(life.job, state=JobState.UNKNOWN, completing=True)
        if life.training is None or life.training.over:
            self.time.after(1.0, lambda: self._settle(life))
            return
        self._hear(life, "SIGTERM")
        self.time.after(KILL_WAIT_S, lambda: self.kill_all(life))

    def training_is_over(self, life: Life) -> None:
        if life.batch is not None and not life.batch.over:
            life.batch.interrupt()
            return
        if life.over:
            return
        if life.batch is not None and life.batch.killed and life.training is not None and life.training.agent_lives:
            life.deputy = self.hooks.deputy(life)
            life.deputy.start()
        else:
            self.time.after(1.0, lambda: self._settle(life))

    def deputy_is_over(self, life: Life) -> None:
        if not life.over:
            self.time.after(1.0, lambda: self._settle(life))

    def _settle(self, life: Life) -> None:
        if life.over or any(not process.over for process in life.processes):
            return
        if life.training is not None and not life.training.over:
            return
        life.over = True
        del self.under_way[life.job]
        state = self._fate_of(life)
        self._close_life(life, state)
        self.hooks.tell(f"job {life.name} is {state.value}")
        if state is JobState.PENDING:
            self._pend(life.job)
        else:
            self._change(life.job, state=state, completing=False, end_s=self.time.now_s)
            if life.batch is not None:
                code = 9 if life.batch.killed else 0
                self._change(life.job, exit_code=life.batch.code or 0, exit_signal=code)
        self._forget_later()
        self._poke()

    def _forget_later(self) -> None:
        age_s = self.setting.min_job_age_s

        def forget() -> None:
            self.purge(age_s)

        self.time.after(age_s + 1.0, forget)

    def _fate_of(self, life: Life) -> JobState:
        record, batch = self.jobs[life.job], life.batch
        assert batch is not None
        if life.cancelled_s is not None:
            return JobState.CANCELLED
        if life.requeued:
            return JobState.PENDING
        named = {"timeout": JobState.TIMEOUT, "preempted": JobState.PREEMPTED, "node": JobState.NODE_FAIL}
        if life.ending in named:
            return named[life.ending]
        if record.preempted_s is not None:
            left = Left.WITH_0 if batch.code == 0 else Left.WITH_AN_ERROR
            comes = fate(self.configured.release, mode_of(self.mode, may_requeue=record.requeue), left)
            assert comes is not None
            if comes.queued_again:
                self.jobs[life.job] = replace(record, restarts=record.restarts + 1, preempted_s=None)
                self.queued_by[life.job] = "slurm"
                self.counted[life.job] = self.counted.get(life.job, 0) + comes.counted
                if self.counted[life.job] >= MAX_REQUEUE:
                    reason = "launch_failure_limit_exceeded_requeued_held"
                    self.time.after(0.0, lambda: self._change(life.job, held=True, reason=reason))
            return comes.state
        if batch.code in self.configured.requeue_exit and record.requeue:
            self.jobs[life.job] = replace(record, restarts=record.restarts + 1)
            self.queued_by[life.job] = "ours"
            return JobState.PENDING
        return JobState.COMPLETED if batch.code == 0 and not batch.killed else JobState.FAILED

    def _close_life(self, life: Life, state: JobState) -> None:
        if self.accounting is None or not self.accounting.get(life.job):
            return
        told = {"requeued": JobState.UNKNOWN}.get(life.ending, JobState.FAILED) if state is JobState.PENDING else state
        *before, last = self.accounting[life.job]
        closed = replace(last, state=told, end_s=self.time.now_s, cancelled_by=life.cancelled_by)
        self.accounting[life.job] = (*before, closed)

    def _pend(self, job: JobRef) -> None:
        self._change(job, state=JobState.PENDING, completing=False, reason="BeginTime", nodes="", end_s=None)
        self.begin_s[job] = self.time.now_s + REQUEUE_DELAY_S
        self.time.after(REQUEUE_DELAY_S + 0.5, self._consider)

    def _change(self, job: JobRef, **changed: object) -> None:
        record = self.jobs.get(job)
        if record is not None:
            self.jobs[job] = replace(record, **changed)  # type: ignore[arg-type]


def _number(job: str) -> int:
    return int(job.partition("_")[0])
