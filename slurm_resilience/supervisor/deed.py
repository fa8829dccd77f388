"""A decision, carried out. It stands in the journal already, and doing it twice is harmless."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from slurm_resilience.errors import SlurmError, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.manifest.chain import Attempt
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import (
    AlreadyQueued,
    Decision,
    Finish,
    Hold,
    Requeue,
    Restart,
    Stop,
    Successor,
)
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, SlurmClient
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.succession import CancelledByPerson, GoneOn, NotSure, Queued, Standing, Succession
from slurm_resilience.triage.slurm_witness import is_being_cancelled

UNSURE_S, PAUSE_S = 60.0, 2.0
EXCLUDE_S = 5.0
"""How long the exclusion of nodes is tried: the job is being ended meanwhile, and goes on without it as well."""
SIGTERM_COMES_S = 0.3
"""From a requeue to the SIGTERM that every process of the job gets (proctrack/linuxproc): 50 ms, measured."""
DISMISSAL_S = 60.0
"""How long a run that is not to go on waits for a silent controller: a successor that starts finds that out itself."""


@dataclass(frozen=True, slots=True)
class Done:
    """The decision is carried out."""

    how: str

    def __str__(self) -> str:
        return self.how


@dataclass(frozen=True, slots=True)
class NotDone:
    """The decision stands in the journal, and nobody has carried it out."""

    why: str
    final: bool
    """Slurm, or a person, has said no; otherwise there was no answer in time, and somebody else may do it."""
    overtaken: bool = False
    """A person's word has come since the decision: nobody is to do it later."""

    def __str__(self) -> str:
        return self.why


Outcome = Union[Done, NotDone]


@dataclass(frozen=True, slots=True)
class Deeds:
    run: Path
    slurm: SlurmClient | None
    """None: this attempt doesn't run under Slurm."""
    succession: Succession | None
    """None: this run has no successors."""
    asking: Asking
    say: Callable[[str], None]
    by_its_job: bool = False
    """Whether the job's own batch script asks, so that a job which is being ended is not so because that left."""

    def carry_out(self, attempt: Attempt, decision: Decision) -> Outcome:
        match decision:
            case Requeue():
                return self._requeue(attempt)
            case Successor():
                return self._follow(attempt)
            case Finish() | Stop():
                return self._dismiss(attempt)
            case Hold():
                return self._hold(attempt)
            case AlreadyQueued():
                return Done(f"Slurm had queued the job again by itself{self._without(attempt, attempt.started.job)}")
            case Restart():
                return Done("the supervisor starts the next attempt itself")

    def _requeue(self, attempt: Attempt) -> Outcome:
        slurm, job = self.slurm, attempt.started.job
        if slurm is None or job is None:
            return NotDone("there is no Slurm here to carry it out", final=False)
        client, restarts = slurm, attempt.started.restart_count or 0

        def requeue() -> Outcome:
            # Decided some time ago, perhaps: a life that Slurm has begun since must not be ended by it, and a
            # cancellation that has come since must not be undone.
            record = client.job(JobRef(job))
            if record is not None and record.restarts > restarts:
                return Done("somebody had queued the job again before us")
            if record is not None and self._cancelled(attempt, record):
                return NotDone(f"job {job} was cancelled; to go on, submit it again", final=True, overtaken=True)
            client.requeue(JobRef(job))
            return Done(f"scontrol requeue {job}")

        try:
            outcome = self.asking.until_answered(requeue, f"asking Slurm to requeue job {job}")
        except SlurmRejected as refusal:
            outcome = self._after_refusal(slurm, attempt, JobRef(job), refusal)
        except SlurmError as error:
            return NotDone(f"{error}; `slurm-resilience resume {self.run}` does it", final=False)
        if isinstance(outcome, Done):
            return Done(f"{outcome.how}{self._without(attempt, job)}")
        if outcome.overtaken:
            self.say(f"attempt {attempt.number} was to be followed by another, but {outcome}")
        return outcome

    def _after_refusal(self, slurm: SlurmClient, attempt: Attempt, job: JobRef, refusal: SlurmRejected) -> Outcome:
        """A refusal is harmless where the job is queued already, and Slurm's word where it isn't."""
        try:
            record = self.asking.until_answered(
                lambda: slurm.job(job), f"asking Slurm whether job {job} is queued already", within_s=UNSURE_S
            )
        except SlurmError:
            record = None
        if record is not None and record.restarts > (attempt.started.restart_count or 0):
            return Done("somebody had queued the job again before us")
        return NotDone(f"{refusal}; to go on, submit the job again", final=True)

    def _cancelled(self, attempt: Attempt, record: JobRecord) -> bool:
        """Whether `record` shows a cancellation that was not weighed when it was decided to go on.

        A young job that Slurm has ended in its first second is listed as cancelled, too: that was known.
        """
        if record.state is JobState.CANCELLED:
            return attempt.ended is None or attempt.ended.cause is not Cause.NEVER_STARTED
        return self.by_its_job and is_being_cancelled(record)

    def _without(self, attempt: Attempt, job: str | None) -> str:
        """Keep the job that goes on from nodes that are to be avoided; says what came of it, to be put behind a deed.

        A job that was just requeued takes it while it is still completing (22.05.8, 24.11.5). One that gets such a node
        all the same does not start there: it costs an attempt, and nothing else.
        """
        nodes = attempt.ended.exclude if attempt.ended is not None else ()
        if not nodes or self.slurm is None or job is None:
            return ""
        slurm, names = self.slurm, ", ".join(nodes)

        def exclude() -> None:
            try:
                slurm.exclude_nodes(JobRef(job), nodes)
            except SlurmRejected as refusal:
                # The command that asks may die of that SIGTERM too: what looks like a refusal may be none.
                raise SlurmUnavailable(str(refusal)) from refusal

        self.asking.clock.sleep(SIGTERM_COMES_S)
        try:
            self.asking.until_answered(exclude, f"excluding {names} from job {job}", within_s=EXCLUDE_S)
        except SlurmError as error:
            self.say(f"job {job} may get {names} again: {error}")
            return f"; {names} could not be excluded"
        return f", without {names}"

    def _follow(self, attempt: Attempt) -> Outcome:
        """Make sure that the successor is queued. Where there can be none, this job is queued again instead."""
        succession = self.succession
        if succession is None:
            return NotDone("there is no Slurm here to carry it out", final=False)
        try:
            standing = self._standing(succession, attempt.number)
        except (SlurmRejected, SlurmUnparsable) as refusal:
            return self._requeue_instead(attempt, str(refusal))
        except SlurmError as error:
            return NotDone(f"{error}; `slurm-resilience resume {self.run}` does it", final=False)
        match standing:
            case Queued(job):
                return Done(f"job {job} is queued and goes on{self._without(attempt, job)}")
            case GoneOn(newer):
                return Done(f"attempt {newer} has begun")
            case NotSure(why):
                return self._requeue_instead(attempt, why)
            case CancelledByPerson():
                return NotDone(f"{standing}; to go on, submit the job again", final=True)

    def _standing(self, succession: Succession, number: int) -> Standing:
        """What is not sure may be in a moment: a job that started beside us leaves, one that is completing is over."""
        clock, first_s = self.asking.clock, self.asking.clock.monotonic_s()
        while True:
            standing = self.asking.until_answered(
                lambda: succession.make_sure(number), "making sure that the successor is queued"
            )
            now_s = clock.monotonic_s()
            if not isinstance(standing, NotSure) or now_s >= min(first_s + UNSURE_S, self.asking.give_up_s - PAUSE_S):
                return standing
            clock.sleep(PAUSE_S)

    def _requeue_instead(self, attempt: Attempt, why: str) -> Outcome:
        """A successor that there is all the same waits for this job, and it finds that one when it starts."""
        self.say(f"there is no successor to be had ({why}): this job is to be queued again itself")
        slurm, job = self.slurm, attempt.started.job
        if slurm is not None and job is not None:
            with contextlib.suppress(SlurmError):  # it was forbidden if there ever was one
                slurm.may_requeue(JobRef(job), True)
        return self._requeue(attempt)

    def _hold(self, attempt: Attempt) -> Outcome:
        """Keep Slurm from starting a job that it has queued already: cancelled, a person can still requeue it.

        `scontrol requeuehold` is refused there, and would end a life of the job that has begun (22.05).
        """
        slurm, job = self.slurm, attempt.started.job
        if slurm is None or job is None:
            return NotDone("there is no Slurm here to carry it out", final=False)
        self._dismiss(attempt)
        try:
            return self.asking.until_answered(lambda: _take_back(slurm, JobRef(job)), f"taking job {job} back")
        except SlurmError as error:
            return NotDone(f"{error}; a job that starts all the same leaves at once", final=False)

    def _dismiss(self, attempt: Attempt) -> Outcome:
        succession = self.succession
        if succession is None:
            return Done("nothing to do")
        try:
            cancelled = self.asking.until_answered(
                lambda: succession.dismiss(attempt.number), "asking Slurm to cancel the successor", within_s=DISMISSAL_S
            )
        except SlurmError as error:
            return NotDone(f"{error}; a successor that starts all the same leaves at once", final=False)
        return Done(f"scancel {' '.join(cancelled)}" if cancelled else "nothing to do")


def _take_back(slurm: SlurmClient, job: JobRef) -> Outcome:
    record = slurm.job(job)
    if record is not None and record.state is JobState.RUNNING and not record.completing:
        return NotDone(f"job {job} has started again, and leaves at once", final=False)
    slurm.cancel(job)
    return Done(f"scancel {job}, which had been queued again; `scontrol requeue {job}` brings it back")
