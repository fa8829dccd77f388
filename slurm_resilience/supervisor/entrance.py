"""Whether a job that Slurm has started by itself may begin an attempt.

A successor starts whatever ended the job before it: finished, cancelled, stopped for a reason, or dead without a word.
So it learns first what became of that one, and tells it where nobody else could.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.clock import Clock
from slurm_resilience.errors import EXIT_FINISHED, EXIT_WILL_NOT_GO_ON, SlurmError
from slurm_resilience.manifest.attempt import live_owner, refuse_if_owned, release
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import Owner, process_liveness
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.start import may_start
from slurm_resilience.slurm.client import JobRef, JobState
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.ending import Ending, Seen
from slurm_resilience.supervisor.planned import what_was_planned

PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Entrance:
    run: RunDirectory
    journal: Journal
    clock: Clock
    ending: Ending
    liveness_by_slurm: Callable[[Owner], Liveness]
    say: Callable[[str], None]
    give_up_s: float
    """Until when an owner that nobody can prove gone is asked about, on the monotonic clock."""

    def turned_away(
        self,
        chain: Chain,
        facts: JobFacts,
        cluster: str | None,
        *,
        successor: bool,
        release: tuple[int, int] | None = None,
    ) -> int | None:
        """The code to leave with at once; None: the job may begin an attempt. Raises RunOwned.

        `successor`: it was queued to follow an attempt of this run. What a person starts always may.
        """
        newest = chain.newest_attempt
        if newest is None:
            return None
        if newest.ended is None and successor:
            self._tell(chain, newest, facts.job)
        elif newest.ended is None and _is_former_life(newest, facts, cluster):
            self.ending.tell_former_life(newest.number)
        elif successor and (why := self._cancelled_since(newest)) is not None:
            self.say(why)
            return EXIT_WILL_NOT_GO_ON
        chain = Chain.of(self.journal.read())
        if chain.finished:
            self.ending.tell_finish()
            self.say(f"run {self.run.path} is finished: nothing to do")
            return EXIT_FINISHED
        stop = may_start(
            chain,
            self.ending.limits,
            job=facts.job,
            restart_count=facts.restart_count,
            successor=successor,
            release=release,
        )
        if stop is None:
            return None
        self.say(stop.reason)
        return EXIT_WILL_NOT_GO_ON

    def _cancelled_since(self, newest: Attempt) -> str | None:
        """A person's scancel may come between the decision and the end of the job; None: none is known of."""
        slurm, job = self.ending.slurm, newest.started.job
        if slurm is None or job is None or newest.ended is None or newest.ended.decision not in ("successor", "leave"):
            return None
        with contextlib.suppress(SlurmError):  # the decision stands
            record = slurm.job(JobRef(job))
            if record is not None and record.state is JobState.CANCELLED:
                return (
                    f"job {job}, which this one was queued to follow, was cancelled: the run does not go on by itself"
                )
        return None

    def _tell(self, chain: Chain, newest: Attempt, job: JobRef) -> None:
        """Nobody could tell how it ended: we do, from what it left behind and what Slurm remembers of its job."""
        self._wait_for_a_proof(chain)
        refuse_if_owned(self.run, chain, self.liveness_by_slurm)
        planned = what_was_planned(self.run, newest)
        seen = Seen(None, (), True, planned.tasks, planned.end_s)
        conclusion = self.ending.tell_predecessor(newest.number, seen, job)
        release(self.run, newest.number, journal=self.journal)
        self.say(f"attempt {newest.number} ended without a word: {conclusion.because}; {conclusion.decision.reason}")

    def _wait_for_a_proof(self, chain: Chain) -> None:
        """A controller that is silent for a moment must not turn away the only job that would go on."""
        owner = live_owner(self.run, chain)
        while owner is not None and process_liveness(owner) is Liveness.UNKNOWN:
            if self.liveness_by_slurm(owner) is not Liveness.UNKNOWN or self.clock.monotonic_s() >= self.give_up_s:
                return
            self.clock.sleep(PAUSE_S)


def _is_former_life(attempt: Attempt, facts: JobFacts, cluster: str | None) -> bool:
    """Slurm has started that very job anew: what it was before is over."""
    started = attempt.started
    same = started.job == facts.job and started.cluster == cluster
    return same and (started.restart_count or 0) < facts.restart_count
