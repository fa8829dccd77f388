"""`slurm-resilience resume`: finish, from outside, what a dead supervisor or a silent controller left undone."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slurm_resilience.clock import Clock
from slurm_resilience.errors import (
    EXIT_FINISHED,
    EXIT_WILL_GO_ON,
    EXIT_WILL_NOT_GO_ON,
    ConfigurationError,
    RunOwned,
    SlurmError,
)
from slurm_resilience.manifest.attempt import live_owner, release
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import process_liveness
from slurm_resilience.manifest.records import GoOnAsked
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import (
    WITHDRAWN,
    AlreadyQueued,
    Finish,
    Hold,
    Requeue,
    Restart,
    Stop,
    Successor,
    Way,
)
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, SlurmClient
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.ending import Ending, Seen
from slurm_resilience.supervisor.ownership import OVER, liveness_by_slurm
from slurm_resilience.supervisor.planned import Planned, what_was_planned
from slurm_resilience.supervisor.succession import CancelledByPerson, GoneOn, NotSure, Queued, Succession

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Afterwards:
    run: RunDirectory
    slurm: SlurmClient
    clock: Clock
    say: Callable[[str], None]
    dry_run: bool
    anyway: bool
    """A person's word that the run is to go on although it was stopped."""
    take_over: bool
    requeue_now: bool = False
    """A person's word that a job which was queued again need not be held back."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the environment of a successor is made of."""
    who: str = "somebody"
    """Whose word `anyway` is, for the journal."""

    def resume(self) -> int:
        """Says what it does, sentence by sentence; returns an exit code of errors.py. Raises RunOwned."""
        journal = Journal(self.run, clock=self.clock)
        chain = Chain.of(journal.read())
        newest = chain.newest_attempt
        if chain.finished:
            if newest is not None and newest.ended is None and not self.dry_run:
                self._refuse_if_owned(chain)
                self._ending(journal, newest, what_was_planned(self.run, newest)).tell_finish()
            self.say(f"run {self.run.path} is finished: nothing to do")
            return EXIT_FINISHED
        if newest is None:
            raise ConfigurationError(f"run {self.run.path} never started: submit its job")
        planned = what_was_planned(self.run, newest)
        if newest.ended is None:
            self._refuse_if_owned(chain)
        elif newest.carried_out is not None and newest.carried_out.how.startswith(WITHDRAWN):
            self.say(f"attempt {newest.number} is not followed: {newest.carried_out.how.removeprefix(WITHDRAWN)}")
            return self._only_anyway(journal, newest.started.job or "")
        elif newest.carried_out is not None and newest.ended.decision in ("requeue", "leave"):
            return self._tell_where_it_is(journal, newest)
        elif newest.ended.decision in ("stop", "hold"):
            if newest.carried_out is None and not self.dry_run:
                self._ending(journal, newest, planned).conclude(newest.number, self._seen(planned))
            return self._after_a_stop(journal, newest)
        if self.dry_run:
            self.say(f"would conclude attempt {newest.number} and carry out what that decides")
            return EXIT_FINISHED
        if newest.ended is not None and newest.ended.decision == "successor" and newest.carried_out is not None:
            return self._see_to_the_successor(journal, newest, planned)
        return self._conclude(journal, newest, planned)

    def _refuse_if_owned(self, chain: Chain) -> None:
        owner = live_owner(self.run, chain)
        if owner is None:
            return
        seen = process_liveness(owner)
        if seen is Liveness.UNKNOWN:
            seen = liveness_by_slurm(self.slurm, owner, self._cluster(), self.take_over)
        if seen is not Liveness.GONE:
            unsure = "nothing proves that it is gone (--take-over gives your word for it)"
            raise RunOwned(self.run.path, f"{owner}; {'it is alive' if seen is Liveness.ALIVE else unsure}")

    def _cluster(self) -> str | None:
        """None: Slurm can't be asked from here, so it proves nothing."""
        try:
            return self.slurm.configuration().cluster
        except SlurmError:
            return None

    def _ending(self, journal: Journal, newest: Attempt, planned: Planned) -> Ending:
        job = newest.started.job
        way = Way.NONE
        if newest.started.mode == "batch" and job is not None:
            way = Way.CHAIN if planned.chain else Way.REQUEUE
        return Ending(
            self.run,
            journal,
            self.slurm if job is not None else None,
            self.clock,
            planned.limits,
            lambda _: way,
            self.say,
            self.clock.monotonic_s() + PATIENCE_S,
            self._succession(journal, planned) if way is Way.CHAIN else None,
        )

    def _seen(self, planned: Planned) -> Seen:
        return Seen(None, (), True, planned.tasks, None)

    def _conclude(self, journal: Journal, newest: Attempt, planned: Planned) -> int:
        conclusion = self._ending(journal, newest, planned).conclude(newest.number, self._seen(planned))
        release(self.run, newest.number, journal=journal)
        self.say(f"attempt {newest.number} ended: {conclusion.because}; {conclusion.decision.reason}")
        match conclusion.decision:
            case Finish():
                return EXIT_FINISHED
            case Requeue() | AlreadyQueued() | Successor():
                self.say(str(conclusion.outcome))
                return EXIT_WILL_GO_ON if conclusion.carried_out else 1
            case Restart() | Hold() | Stop():
                return EXIT_WILL_NOT_GO_ON

    def _succession(self, journal: Journal, planned: Planned) -> Succession:
        return Succession(journal, self.slurm, self.environment, planned.dependency)

    def _see_to_the_successor(self, journal: Journal, newest: Attempt, planned: Planned) -> int:
        """The attempt is told, and its successor is to go on: make sure that it is there, and say where."""
        assert newest.started.job is not None
        asking = Asking(self.clock, self.say, self.clock.monotonic_s() + PATIENCE_S)
        standing = asking.until_answered(
            lambda: self._succession(journal, planned).make_sure(newest.number),
            "making sure that the successor is queued",
        )
        match standing:
            case Queued(job, newly):
                self.say(f"job {job} {'is queued now' if newly else 'is queued'} and goes on with the run")
                return EXIT_WILL_GO_ON
            case GoneOn(number):
                self.say(f"attempt {number} has begun")
                return EXIT_WILL_GO_ON
            case NotSure(why):
                self.say(f"{why}: nothing is submitted; look again in a minute")
                return EXIT_WILL_GO_ON
            case CancelledByPerson():
                self.say(f"attempt {newest.number} is not followed: {standing}")
                return self._only_anyway(journal, newest.started.job)

    def _tell_where_it_is(self, journal: Journal, newest: Attempt) -> int:
        job = newest.started.job
        if job is None:
            self.say(f"start it again to go on: srun-resilient {shlex.join(newest.started.command)}")
            return EXIT_WILL_NOT_GO_ON
        record = self.slurm.job(JobRef(job))
        if record is None:
            self.say(f"Slurm doesn't know job {job} any more: submit it again to go on")
            return EXIT_WILL_NOT_GO_ON
        if record.state in OVER and not record.completing:
            self.say(
                f"job {job} was queued again after attempt {newest.number}, and has ended since: {record.state.value}"
            )
            return self._only_anyway(journal, job)
        if self.requeue_now and record.state is JobState.PENDING and not record.held:
            return self._start_now(JobRef(job), record)
        held = f"; it is held ({record.reason}): `scontrol release {job}` lets it go on" if record.held else ""
        self.say(f"job {job} has been queued again and is {record.state.value}, reason {record.reason}{held}")
        return EXIT_WILL_GO_ON

    def _start_now(self, job: JobRef, record: JobRecord) -> int:
        """Take back the delay that Slurm has put on a job which was queued again."""
        if record.reason != "BeginTime":
            self.say(f"job {job} is not held back (reason {record.reason}): there is no delay to take back")
            return EXIT_WILL_GO_ON
        self.say(
            f"Slurm holds job {job} back so that every node forgets the credentials of its former life; without the "
            "delay a node that is slow to clear up may refuse the job, which is then queued again or (24.11) ended"
        )
        if self.dry_run:
            self.say(f"would run: scontrol update JobId={job} StartTime=now+5seconds")
            return EXIT_FINISHED
        self.slurm.start_now(job)
        self.say(f"job {job} may start now")
        return EXIT_WILL_GO_ON

    def _after_a_stop(self, journal: Journal, newest: Attempt) -> int:
        assert newest.ended is not None
        job = newest.started.job
        self.say(f"attempt {newest.number} was stopped: {newest.ended.decision_reason}")
        if job is None:
            self.say(f"start it again to go on: srun-resilient {shlex.join(newest.started.command)}")
            return EXIT_WILL_NOT_GO_ON
        return self._only_anyway(journal, job)

    def _only_anyway(self, journal: Journal, job: str) -> int:
        if not self.anyway:
            self.say(f"to go on, submit the job again, or queue job {job} again with `--anyway`")
            return EXIT_WILL_NOT_GO_ON
        if self.dry_run:
            self.say(f"would run: scontrol requeue {job}")
            return EXIT_FINISHED
        newest = Chain.of(journal.read()).newest_attempt
        if newest is not None and newest.go_on_asked is None:  # before the deed: who starts finds that it may
            journal.append(GoOnAsked(newest.number, self.who))
        record = self.slurm.job(JobRef(job))
        if record is not None and not record.requeue:  # in a chain that is forbidden, while a successor waits
            self.slurm.may_requeue(JobRef(job), True)
        self.slurm.requeue(JobRef(job))
        self.say(f"job {job} is queued again")
        return EXIT_WILL_GO_ON
