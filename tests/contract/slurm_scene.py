"""The situations in which a job can be, whichever Slurm brings them about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from slurm_resilience.slurm.client import JobRef, SlurmClient

T = TypeVar("T")
HOSTILE_NAME = "x JobState=FAILED Restarts=99"
GRACE_S = 15
"""The GraceTime of the partition `low`, in which every job here is; `high` has none."""


class SlurmScene(Protocol):
    """Each verb returns once the client's Slurm holds a job in that situation."""

    @property
    def client(self) -> SlurmClient: ...

    @property
    def kill_wait_s(self) -> int: ...

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef: ...

    def array(self) -> tuple[JobRef, JobRef]:
        """The first and the last element of an array, both running."""

    def held(self) -> JobRef:
        """It waits, and a user holds it."""

    def waiting(self) -> JobRef:
        """It waits for another job."""

    def ended(self, code: int) -> JobRef:
        """Its batch script has left with `code`."""

    def killed(self) -> JobRef:
        """Its batch script has died of SIGKILL."""

    def cancelled(self) -> JobRef: ...

    def preempted(self) -> JobRef:
        """It has been told so, and its grace period has begun."""

    def unknown(self) -> JobRef: ...

    def settled(self, job: JobRef) -> None:
        """Return once nothing of the job runs any more after it was queued again."""

    def while_silent(self, ask: Callable[[], T]) -> T:
        """Ask while the controller is down; it is back afterwards."""
