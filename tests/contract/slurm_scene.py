"""The situations in which a job can be, whichever Slurm brings them about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from slurm_resilience.slurm.client import JobRef, SlurmClient, Submission

T = TypeVar("T")
HOSTILE_NAME = "x JobState=FAILED Restarts=99"
GRACE_S = 15
"""The GraceTime of the partition `low`, in which every job here is; `high` has none."""
SCRIPT = "#!/bin/bash\n# caf\u00e9\t'\"$HOME\"' \\ %j\nsleep 600 # the last line does not end"
SHELL_SIGNALLED, STEP_SIGNALLED = 5, 6
"""What a listening job leaves with, by who of it got SIGUSR1 first."""


class SlurmScene(Protocol):
    """Each verb returns once the client's Slurm holds a job in that situation."""

    @property
    def client(self) -> SlurmClient: ...

    @property
    def kill_wait_s(self) -> int: ...

    @property
    def node_names(self) -> tuple[str, ...]:
        """All nodes: four."""

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef: ...

    def listening(self) -> JobRef:
        """It runs step 0; its shell and its step both wait for SIGUSR1."""

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

    def submission(self, *options: str, script: str = SCRIPT) -> Submission:
        """Something that can be queued here: in a folder that exists, with output that can be written."""

    def started(self, job: JobRef) -> None:
        """Return once the job runs."""

    def over(self, job: JobRef) -> None:
        """Return once the job has ended."""

    def settled(self, job: JobRef) -> None:
        """Return once nothing of the job runs any more after it was queued again."""

    def while_drained(self, node: str, reason: str, ask: Callable[[], T]) -> T:
        """Ask while an administrator has drained the node for that reason."""

    def while_silent(self, ask: Callable[[], T], *, hasty: bool = False) -> T:
        """Ask while the controller is down; it is back afterwards. `hasty`: the client waits for no answer for long."""
