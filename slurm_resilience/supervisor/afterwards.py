"""`slurm-resilience resume`: finish, from outside, what a dead supervisor or a silent controller left undone."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.clock import Clock
from slurm_resilience.errors import (
    EXIT_FINISHED,
    EXIT_WILL_GO_ON,
    EXIT_WILL_NOT_GO_ON,
    ConfigurationError,
    RunOwned,
    SlurmError,
)
from slurm_resilience.launch.plan import read_plan
from slurm_resilience.manifest.attempt import live_owner, release
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import process_liveness
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import AlreadyQueued, Finish, Requeue, Way
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobRef, SlurmClient
from slurm_resilience.supervisor.ending import Ending, Seen
from slurm_resilience.supervisor.ownership import OVER, liveness_by_slurm

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

    def resume(self) -> int:
        """Says what it does, sentence by sentence; returns an exit code of errors.py. Raises RunOwned."""
        journal = Journal(self.run, clock=self.clock)
        chain = Chain.of(journal.read())
        newest = chain.newest_attempt
        if chain.finished:
            self.say(f"run {self.run.path} is finished: nothing to do")
            return EXIT_FINISHED
        if newest is None:
            raise ConfigurationError(f"run {self.run.path} never started: submit its job")
        if newest.ended is None:
            self._refuse_if_owned(chain)
        elif newest.carried_out is not None and newest.ended.decision in ("requeue", "leave"):
            return self._tell_where_it_is(newest)
        elif newest.ended.decision == "stop":
            return self._after_a_stop(newest)
        if self.dry_run:
            self.say(f"would conclude attempt {newest.number} and carry out what that decides")
            return EXIT_FINISHED
        return self._conclude(journal, newest)

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

    def _plan(self, attempt: int) -> tuple[Limits, int]:
        """The limits that the user chose, and how many node agents there were to be."""
        try:
            plan = read_plan(self.run.plan(attempt))
        except ConfigurationError:  # it died before it had one
            return Limits(), 0
        return plan.limits, plan.tasks

    def _conclude(self, journal: Journal, newest: Attempt) -> int:
        job = newest.started.job
        limits, agents = self._plan(newest.number)
        way = Way.REQUEUE if newest.started.mode == "batch" and job is not None else Way.NONE
        ending = Ending(
            self.run,
            journal,
            self.slurm if job is not None else None,
            self.clock,
            limits,
            lambda _: way,
            self.say,
            self.clock.monotonic_s() + PATIENCE_S,
        )
        conclusion = ending.conclude(newest.number, Seen(None, (), True, agents, None))
        release(self.run, newest.number, journal=journal)
        self.say(f"attempt {newest.number} ended: {conclusion.because}; {conclusion.decision.reason}")
        match conclusion.decision:
            case Finish():
                return EXIT_FINISHED
            case Requeue() | AlreadyQueued():
                return EXIT_WILL_GO_ON if conclusion.carried_out else 1
            case _:
                return EXIT_WILL_NOT_GO_ON

    def _tell_where_it_is(self, newest: Attempt) -> int:
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
            return self._only_anyway(job)
        held = f"; it is held ({record.reason}): `scontrol release {job}` lets it go on" if record.held else ""
        self.say(f"job {job} has been queued again and is {record.state.value}, reason {record.reason}{held}")
        return EXIT_WILL_GO_ON

    def _after_a_stop(self, newest: Attempt) -> int:
        assert newest.ended is not None
        job = newest.started.job
        self.say(f"attempt {newest.number} was stopped: {newest.ended.decision_reason}")
        if job is None:
            self.say(f"start it again to go on: srun-resilient {shlex.join(newest.started.command)}")
            return EXIT_WILL_NOT_GO_ON
        return self._only_anyway(job)

    def _only_anyway(self, job: str) -> int:
        if not self.anyway:
            self.say(f"to go on, submit the job again, or queue job {job} again with `--anyway`")
            return EXIT_WILL_NOT_GO_ON
        if self.dry_run:
            self.say(f"would run: scontrol requeue {job}")
            return EXIT_FINISHED
        self.slurm.requeue(JobRef(job))
        self.say(f"job {job} is queued again")
        return EXIT_WILL_GO_ON
