"""The situations of the contract, made in the fake."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slurm_resilience.slurm.client import JobRef, JobState, NodeRecord, Submission
from tests.contract.slurm_scene import GRACE_S, SCRIPT, SHELL_SIGNALLED, STEP_SIGNALLED, T
from tests.faults.fake_slurm import CONFIGURATION, FakeSlurm, running

NOW_S = 1000.0
NODES = ("n1", "n2", "n3", "n4")


def _fake() -> FakeSlurm:
    return FakeSlurm(node_records={name: NodeRecord(name, ("IDLE",), "") for name in NODES})


@dataclass
class FakeScene:
    client: FakeSlurm = field(default_factory=_fake)
    kill_wait_s: int = CONFIGURATION.kill_wait_s
    node_names: tuple[str, ...] = NODES
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(7))

    def _put(self, job: str | None = None, **changed: object) -> JobRef:
        ref = JobRef(str(next(self._numbers)) if job is None else job)
        self.client.jobs[ref] = running(ref, **changed)
        return ref

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef:
        return self._put(requeue=requeue)

    def listening(self) -> JobRef:
        return self._put()

    def array(self) -> tuple[JobRef, JobRef]:
        number = next(self._numbers)
        return self._put(f"{number}_0"), self._put(f"{number}_1")

    def held(self) -> JobRef:
        return self._put(state=JobState.PENDING, held=True, reason="JobHeldUser")

    def waiting(self) -> JobRef:
        return self._put(state=JobState.PENDING, reason="Dependency")

    def ended(self, code: int) -> JobRef:
        return self._put(state=JobState.FAILED if code else JobState.COMPLETED, exit_code=code)

    def killed(self) -> JobRef:
        return self._put(state=JobState.FAILED, exit_signal=9)

    def cancelled(self) -> JobRef:
        return self._put(state=JobState.CANCELLED, exit_signal=15)

    def preempted(self) -> JobRef:
        return self._put(preempted_s=NOW_S, end_s=NOW_S + GRACE_S)

    def unknown(self) -> JobRef:
        return JobRef("1")

    def submission(self, *options: str, script: str = SCRIPT) -> Submission:
        return Submission(script, ("--partition=low", *options), {})

    def started(self, job: JobRef) -> None:
        self.client.start(job)

    def over(self, job: JobRef) -> None:
        for told, _, to in self.client.signalled:
            if told == job:
                code = SHELL_SIGNALLED if to == "batch" else STEP_SIGNALLED
                self.client.jobs[job] = replace(self.client.jobs[job], state=JobState.FAILED, exit_code=code)

    def settled(self, job: JobRef) -> None:
        record = self.client.jobs[job]
        if record.completing:
            reason = "job requeued in held state" if record.held else "BeginTime"
            self.client.jobs[job] = replace(record, state=JobState.PENDING, completing=False, reason=reason)

    def while_drained(self, node: str, reason: str, ask: Callable[[], T]) -> T:
        self.client.node_records[node] = NodeRecord(node, ("IDLE", "DRAIN"), reason)
        try:
            return ask()
        finally:
            self.client.node_records[node] = NodeRecord(node, ("IDLE",), "")

    def while_silent(self, ask: Callable[[], T], *, hasty: bool = False) -> T:
        self.client.silent_for = 10**9
        try:
            return ask()
        finally:
            self.client.silent_for = 0
