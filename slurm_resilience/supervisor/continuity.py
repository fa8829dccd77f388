"""What ties the attempts of a run together, as a supervisor sees it: who may begin, who tells the end, who follows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ConfigurationError, ManifestUnavailable, SlurmError
from slurm_resilience.manifest.attempt import live_owner
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import Owner, process_liveness
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import Way
from slurm_resilience.requeue.successor import SINGLETON, SUCCESSOR_OF, chained_by_another, predecessor, token_of
from slurm_resilience.slurm.client import SlurmClient
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.ending import Ending
from slurm_resilience.supervisor.entrance import Entrance
from slurm_resilience.supervisor.ownership import liveness_by_slurm
from slurm_resilience.supervisor.preparation import Granted, measured_in
from slurm_resilience.supervisor.request import ContinueBy, Dependency, Request
from slurm_resilience.supervisor.succession import Succession
from slurm_resilience.supervisor.succession_watch import SuccessionWatch
from slurm_resilience.supervisor.surroundings import Mode, way_on
from slurm_resilience.supervisor.time_watch import TimeWatch, watch_time

ASK_ABOUT_THE_PAST_S = 6 * 3600.0
"""How long a successor waits for Slurm's word about the job before it, but no more than half of its own time: cancelled
or killed makes the difference, and it may be the only job that would go on. Controllers are upgraded for hours."""
_FROM_SCRATCH = "SLURM_RESILIENCE_FROM_SCRATCH"


@dataclass(frozen=True, slots=True)
class Continuity:
    run: RunDirectory
    journal: Journal
    request: Request
    mode: Mode
    facts: JobFacts | None
    slurm: SlurmClient | None
    clock: Clock
    environment: Mapping[str, str]
    say: Callable[[str], None]

    def turned_away(self, granted: Granted) -> int | None:
        """For a job that Slurm starts by itself although the run is not to go on: the code to leave with."""
        if self.facts is None:
            return None
        ends_s = granted.times.end_s
        half_s = ASK_ABOUT_THE_PAST_S if ends_s is None else max(0.0, ends_s - self.clock.now_s()) / 2
        give_up_s = self.clock.monotonic_s() + min(ASK_ABOUT_THE_PAST_S, half_s)
        ending = self.ending(self.may_requeue(granted), give_up_s)
        liveness = self.liveness(granted.cluster)
        entrance = Entrance(self.run, self.journal, self.clock, ending, liveness, self.say, give_up_s)
        chain = Chain.of(self.journal.read())
        self._refuse_a_second_run_in_a_chain(chain)
        return entrance.turned_away(
            chain,
            self.facts,
            granted.cluster,
            successor=self.follows(chain, granted),
            release=granted.release,
        )

    def _refuse_a_second_run_in_a_chain(self, chain: Chain) -> None:
        """A successor runs the whole batch script: with two runs in it there would be two, and each run twice."""
        if not self._chained or self.slurm is None or self.facts is None:
            return
        try:
            other = chained_by_another(self.slurm.my_jobs(), self.facts.job, token_of(chain.run_id))
        except SlurmError:
            return  # the look at the start of the attempt will tell
        if other is not None:
            raise ConfigurationError(
                f"job {other} is queued to follow job {self.facts.job} for another run: with --continue=chain each run "
                "needs a job of its own; give this one another, or say --continue=requeue for both"
            )

    def tell_finish(self, chain: Chain) -> None:
        """The training of the last attempt came to its end, and its supervisor may have died before it could say so."""
        owner = live_owner(self.run, chain)
        if owner is not None and process_liveness(owner) is Liveness.ALIVE:
            return  # it says so in a moment
        with contextlib.suppress(SlurmError, ManifestUnavailable):  # the next one tries again
            self.ending(False, self.clock.monotonic_s()).tell_finish()

    def follows(self, chain: Chain, granted: Granted) -> bool:
        """Whether this job was queued to follow an attempt of this run."""
        comment = granted.record.comment if granted.record is not None else None
        return self._predecessor(chain, comment) is not None

    def _predecessor(self, chain: Chain, comment: str | None) -> Attempt | None:
        if self.facts is None:
            return None
        job, restarts, said = self.facts.job, self.facts.restart_count, self.environment.get(SUCCESSOR_OF)
        return predecessor(chain, job=job, restart_count=restarts, said=said, comment=comment)

    def environment_of_training(self, chain: Chain, granted: Granted) -> dict[str, str]:
        """A successor has its batch script's `--from-scratch`, too, which was meant for the first attempt."""
        kept = dict(self.environment)
        if _FROM_SCRATCH in kept and self.follows(chain, granted):
            del kept[_FROM_SCRATCH]
        return kept

    def description(self) -> list[str]:
        """How it would go on, for `--dry-run`; nothing to say where that is by requeueing."""
        if not self._chained or self.facts is None:
            return []
        on = SINGLETON if self.request.dependency is Dependency.SINGLETON else f"afterany:{self.facts.job}"
        return [f"a successor is queued at the start: this batch script again, --dependency={on}"]

    def may_requeue(self, granted: Granted) -> bool:
        if self.mode is not Mode.BATCH or not self.request.requeue:
            return False
        return granted.record is None or granted.record.requeue

    def warn(self, granted: Granted) -> None:
        """Of what keeps the run from going on by itself."""
        alone = self.mode is Mode.BATCH and self.request.requeue and not self._chained
        if alone and not self.may_requeue(granted):
            self.say("warning: this job was submitted with --no-requeue: whatever ends it, Slurm won't start it again")

    def way(self, cause: Cause, *, may_requeue: bool) -> Way:
        return way_on(self.mode, cause, may_requeue=may_requeue, chain=self._chained)

    def liveness(self, cluster: str | None) -> Callable[[Owner], Liveness]:
        def ask(owner: Owner) -> Liveness:  # rarely asked: the journal is read for it only then
            before = self._predecessor(Chain.of(self.journal.read()), None)
            followed = before.started.job if before is not None else None
            return liveness_by_slurm(self.slurm, owner, cluster, self.request.take_over, followed=followed)

        return ask

    def ending(self, may_requeue: bool, give_up_s: float) -> Ending:
        def way(cause: Cause) -> Way:
            return self.way(cause, may_requeue=may_requeue)

        limits = self.request.limits
        return Ending(
            self.run, self.journal, self.slurm, self.clock, limits, way, self.say, give_up_s, self._succession()
        )

    def watch(self) -> SuccessionWatch | None:
        """None: this run has no successors."""
        succession = self._succession()
        if succession is None or self.slurm is None or self.facts is None:
            return None
        return SuccessionWatch(succession, self.slurm, self.facts.job, self.clock, self.say)

    def time_watch(self, number: int, chain: Chain, granted: Granted) -> TimeWatch | None:
        """None: there is no job whose time could be asked for."""
        if self.facts is None:
            return None
        return watch_time(
            self.run,
            number,
            self.slurm,
            self.facts.job,
            granted.times,
            measured_in(chain),
            self.request.asked,
            restarts=self.facts.restart_count,
            clock=self.clock,
            say=self.say,
        )

    def preempting(self) -> bool:
        """Whether Slurm says so. Raises SlurmError where it doesn't answer: that is no "no"."""
        if self.slurm is None or self.facts is None:
            return False
        record = self.slurm.job(self.facts.job)
        return record is not None and record.preempted_s is not None

    @property
    def _chained(self) -> bool:
        return self.request.continue_by is ContinueBy.CHAIN

    def _succession(self) -> Succession | None:
        if not self._chained or self.slurm is None:
            return None
        return Succession(self.journal, self.slurm, self.environment, self.request.dependency)
