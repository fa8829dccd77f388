"""Exactly one job waits to go on with the run when this one is over. Pure: what Slurm lists in, what to do out.

Level-triggered: whoever looks compares what is there with what is to be there, and never asks what was done before. So
an answer that got lost, a death between two lines and two who look at once all end the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState

MARK = "slurm-resilience:"
"""Before the run's id, in the comment of every job that was queued to go on with the run."""
SUCCESSOR_OF = "SLURM_RESILIENCE_SUCCESSOR_OF"
"""In a successor's environment: the attempt and the job that it follows, `3:123`."""
SINGLETON = "singleton"


def token_of(run_id: str) -> str:
    return f"{MARK}{run_id}"


LONGEST_COMMENT_BYTES = 1024
"""sbatch takes no longer one (22.05.8, 24.11.5)."""


def with_token(comment: str, token: str) -> str:
    """The user's own words are kept before it, as far as they fit; the token of a run before, and a second one of this
    run, are not."""
    words = [word for word in comment.split(" ") if not word.startswith(MARK)]
    room = LONGEST_COMMENT_BYTES - len(token.encode()) - 1
    kept = " ".join(words).encode()[: max(room, 0)].decode(errors="ignore")
    return f"{kept} {token}".strip()


@dataclass(frozen=True, slots=True)
class Known:
    """What the journal knows of the jobs of a run."""

    token: str
    named: str | None
    """This attempt's successor, if its submission is told."""
    successors: frozenset[str]
    """Every job that the journal names as a successor, this attempt's and earlier ones'."""
    lives: Mapping[str, int]
    """The jobs that attempts ran in, with the newest restart count told of each."""

    @classmethod
    def of(cls, chain: Chain, attempt: Attempt) -> Known:
        lives: dict[str, int] = {}
        for each in chain.attempts:
            if each.started.job is not None:
                lives[each.started.job] = max(lives.get(each.started.job, 0), each.started.restart_count or 0)
        successors = frozenset(each.successor for each in chain.attempts if each.successor is not None)
        return cls(token_of(chain.run_id), attempt.successor, successors, lives)

    def is_of_the_run(self, record: JobRecord) -> bool:
        """An attempt's job that somebody has queued again counts: it goes on with the run like a successor."""
        named = record.job in self.successors or self.token in record.comment.split()
        return named or (record.job in self.lives and not self.has_begun(record))

    def has_begun(self, record: JobRecord) -> bool:
        """Whether this life of the job is one that the journal tells of: an attempt, and no successor any more."""
        return record.job in self.lives and record.restarts <= self.lives[record.job]


@dataclass(frozen=True, slots=True)
class Keep:
    """It is there and waits for us."""

    job: JobRef


@dataclass(frozen=True, slots=True)
class Repoint:
    """It is there and waits for another job, or for none."""

    job: JobRef
    dependency: str


@dataclass(frozen=True, slots=True)
class Submit:
    dependency: str


@dataclass(frozen=True, slots=True)
class Respect:
    """A person has cancelled the successor: their word that the run is not to go on."""

    job: JobRef


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be told for sure at this moment, so nothing is submitted."""

    why: str


Step = Union[Keep, Repoint, Submit, Respect, Wait]


@dataclass(frozen=True, slots=True)
class Plan:
    step: Step
    extras: tuple[JobRef, ...] = ()
    """To be cancelled once the one that stays is in the journal."""


def plan_successor(listing: Iterable[JobRecord], me: JobRef, known: Known, *, singleton: bool = False) -> Plan:
    """What makes it exactly one. `me`: the job whose end the successor waits for.

    A listing without `me` is no answer to trust (another cluster's, another user's): nothing is submitted on it.
    """
    wanted = SINGLETON if singleton else f"afterany:{me}"
    mine = [record for record in listing if record.job == me or known.is_of_the_run(record)]
    others = [record for record in mine if record.job != me]
    waiting = waiting_of(others)
    if waiting:
        stays, *extras = waiting
        step: Step = Keep(stays.job) if waits_for(stays.dependency, me) else Repoint(stays.job, wanted)
        return Plan(step, tuple(record.job for record in extras))
    for record in others:
        if record.state is JobState.CANCELLED and _is(record.job, known.named):
            return Plan(Respect(record.job))
    for record in others:
        if may_still_go_on(record) and not known.has_begun(record):
            return Plan(Wait(f"job {record.job} of this run is {_said(record)} besides job {me}"))
    if not any(record.job == me for record in mine):
        return Plan(Wait(f"Slurm's list of jobs doesn't have job {me}"))
    return Plan(Submit(wanted))


def chained_by_another(listing: Iterable[JobRecord], me: JobRef, token: str) -> JobRef | None:
    """The job that waits for the end of `me` to go on with another run; None: there is none."""
    for record in waiting_of(listing):
        tokens = {word for word in record.comment.split() if word.startswith(MARK)}
        if tokens and token not in tokens and waits_for(record.dependency, me):
            return record.job
    return None


def successors_in(listing: Iterable[JobRecord], me: JobRef, known: Known) -> tuple[JobRef, ...]:
    """The jobs to be cancelled when the run is not to go on: what waits, whomever it waits for."""
    mine = [record for record in listing if record.job != me and known.is_of_the_run(record)]
    return tuple(record.job for record in waiting_of(mine))


def waiting_of(records: Iterable[JobRecord]) -> list[JobRecord]:
    """The oldest first: of two that look at once, both keep the same one."""
    return sorted((r for r in records if r.state is JobState.PENDING), key=lambda r: _age(r.job))


def may_still_go_on(record: JobRecord) -> bool:
    """RUNNING: it has started beside us and will find that the run has an owner. UNKNOWN: it may be coming back."""
    return record.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN)


def waits_for(dependency: str, me: JobRef) -> bool:
    """Whether this is a dependency, as Slurm writes it, on the end of `me`, or on that of all of its name."""
    for one in re.split(r"[,?]", re.sub(r"\([^)]*\)", "", dependency)):
        kind, _, jobs = one.strip().partition(":")
        if kind == SINGLETON or (kind == "afterany" and me in jobs.split(":")):
            return True
    return False


def predecessor(chain: Chain, *, job: str, restart_count: int, said: str | None, comment: str | None) -> Attempt | None:
    """The attempt that this job was queued to follow; None: somebody has submitted or requeued it by hand.

    `said`: SUCCESSOR_OF in its environment. A job that was submitted from inside of an attempt's job has inherited that
    too, so the comment must bear it out; None: it could not be asked for.
    """
    if restart_count > 0:
        return None  # successors are not requeued by us: a person, or an admin
    for attempt in reversed(chain.attempts):
        if attempt.successor == job:
            return attempt
    number, _, _ = (said or "").partition(":")
    if not number.isdigit() or (comment is not None and token_of(chain.run_id) not in comment.split()):
        return None
    return chain.attempt(int(number))


def _age(job: JobRef) -> tuple[int, str]:
    number = job.partition("_")[0]
    return (int(number) if number.isdigit() else 0, job)


def _is(listed: JobRef, named: str | None) -> bool:
    """A waiting array element that is cancelled is listed by the number of its array (22.05, 24.11)."""
    return named is not None and listed in (named, named.partition("_")[0])


def _said(record: JobRecord) -> str:
    return "completing" if record.completing else record.state.value
