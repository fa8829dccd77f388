"""The job that waits to go on with the run: looked for, queued, repointed and cancelled, as requeue/successor.py plans.

What is planned is in the journal before it is submitted, and the job carries the run's token: so an answer that got
lost and a death at any line leave a job that the next look finds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from slurm_resilience.errors import SlurmRejected
from slurm_resilience.launch.successor_environment import successor_environment
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import SuccessorPlanned, SuccessorQueued
from slurm_resilience.requeue.successor import (
    SUCCESSOR_OF,
    Keep,
    Known,
    Plan,
    Repoint,
    Respect,
    Submit,
    Wait,
    plan_successor,
    successors_in,
    with_token,
)
from slurm_resilience.slurm.client import JobRecord, JobRef, SlurmClient, Submission
from slurm_resilience.supervisor.request import Dependency

_OURS = ("comment", "dependency", "array", "begin")
"""Options of sbatch that a successor has from us and not from the job that it follows."""


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits for the attempt's job to be over."""

    job: JobRef
    newly: bool
    """Submitted or repointed just now."""


@dataclass(frozen=True, slots=True)
class CancelledByPerson:
    """It will not be submitted again within this attempt."""

    job: JobRef

    def __str__(self) -> str:
        return f"its successor, job {self.job}, was cancelled, which is taken for a person's word"


@dataclass(frozen=True, slots=True)
class NotSure:
    """Nothing was submitted, because there might be one: to be looked at again."""

    why: str


@dataclass(frozen=True, slots=True)
class GoneOn:
    """A newer attempt has begun: it sees to its own successor."""

    attempt: int


Standing = Union[Queued, CancelledByPerson, NotSure, GoneOn]


@dataclass(frozen=True, slots=True)
class Succession:
    journal: Journal
    slurm: SlurmClient
    environment: Mapping[str, str]
    """What a successor's own is made of."""
    dependency: Dependency = Dependency.AFTERANY

    def make_sure(self, number: int) -> Standing:
        """That exactly one job waits for the end of attempt `number`. Twice is harmless.

        Raises what the client and the journal raise; after SlurmUnavailable there may be one or not.
        """
        chain, attempt, me = self._look_up(number)
        newest = chain.newest_attempt
        if newest is not None and newest.number > number:
            return GoneOn(newest.number)
        known = Known.of(chain, attempt)
        if attempt.successor_token != known.token:
            self.journal.append(SuccessorPlanned(number, known.token), fence=number)
        listing = self.slurm.my_jobs()
        plan = plan_successor(listing, me, known, singleton=self.dependency is Dependency.SINGLETON)
        standing = self._carry_out(plan, attempt, me, listing, known.token)
        if isinstance(standing, Queued):
            if attempt.successor != standing.job:
                self.journal.append(SuccessorQueued(number, standing.job), fence=number)
            self._cancel(plan.extras)  # only now: who is cancelled must not be the one that the journal names
        return standing

    def cancelled_by_person(self, number: int) -> CancelledByPerson | None:
        """Whether somebody has cancelled the successor of attempt `number`. Raises what the client raises."""
        chain, attempt, me = self._look_up(number)
        plan: Plan = plan_successor(self.slurm.my_jobs(), me, Known.of(chain, attempt))
        return CancelledByPerson(plan.step.job) if isinstance(plan.step, Respect) else None

    def dismiss(self, number: int) -> tuple[JobRef, ...]:
        """Cancel what waits to go on after attempt `number`: which jobs. Raises what the client raises."""
        chain, attempt, me = self._look_up(number)
        newest = chain.newest_attempt
        if newest is not None and newest.number > number:
            return ()  # what waits now is not ours
        waiting = successors_in(self.slurm.my_jobs(), me, Known.of(chain, attempt))
        self._cancel(waiting)
        return waiting

    def _carry_out(
        self, plan: Plan, attempt: Attempt, me: JobRef, listing: tuple[JobRecord, ...], token: str
    ) -> Standing:
        match plan.step:
            case Respect(job):
                return CancelledByPerson(job)
            case Wait(why):
                return NotSure(why)
            case Keep(job):
                return Queued(job, newly=False)
            case Repoint(job, dependency):
                self.slurm.depend_on(job, dependency)
                return Queued(job, newly=True)
            case Submit(dependency):
                submission = self._submission(attempt, me, listing, token, dependency)
                return Queued(self.slurm.submit(submission), newly=True)

    def _look_up(self, number: int) -> tuple[Chain, Attempt, JobRef]:
        chain = Chain.of(self.journal.read())
        attempt = chain.attempt(number)
        if attempt is None or attempt.started.job is None:
            raise ValueError(f"attempt {number} has no job that another could follow")
        return chain, attempt, JobRef(attempt.started.job)

    def _cancel(self, jobs: tuple[JobRef, ...]) -> None:
        for job in jobs:
            with contextlib.suppress(SlurmRejected):  # it is over, or has started and finds out how things stand
                self.slurm.cancel(job)

    def _submission(
        self, attempt: Attempt, me: JobRef, listing: tuple[JobRecord, ...], token: str, dependency: str
    ) -> Submission:
        comment = next((record.comment for record in listing if record.job == me), "")
        theirs = [
            option for option in self.slurm.asked_for(me) if option.removeprefix("--").partition("=")[0] not in _OURS
        ]
        task = me.partition("_")[2]
        options = (
            *theirs,
            f"--dependency={dependency}",
            f"--comment={with_token(comment, token)}",
            *([f"--array={task}"] if task else []),
        )
        said = f"{attempt.number}:{me}"
        environment = successor_environment(self.environment, name=SUCCESSOR_OF, said=said)
        return Submission(self.slurm.batch_script(me), options, environment)
