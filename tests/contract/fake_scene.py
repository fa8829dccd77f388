"""The situations of the contract, made in the fake."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slurm_resilience.slurm.client import JobRef, JobState
from tests.contract.slurm_scene import GRACE_S, T
from tests.faults.fake_slurm import CONFIGURATION, FakeSlurm, running

NOW_S = 1000.0


@dataclass
class FakeScene:
    client: FakeSlurm = field(default_factory=FakeSlurm)
    kill_wait_s: int = CONFIGURATION.kill_wait_s
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(7))

    def _put(self, job: str | None = None, **changed: object) -> JobRef:
        ref = JobRef(str(next(self._numbers)) if job is None else job)
        self.client.jobs[ref] = running(ref, **changed)
        return ref

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef:
        return self._put(requeue=requeue)

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

    def settled(self, job: JobRef) -> None:
        record = self.client.jobs[job]
        if record.completing:
            self.client.jobs[job] = replace(record, state=JobState.PENDING, completing=False, reason="BeginTime")

    def while_silent(self, ask: Callable[[], T]) -> T:
        self.client.silent_for = 10**9
        try:
            return ask()
        finally:
            self.client.silent_for = 0
