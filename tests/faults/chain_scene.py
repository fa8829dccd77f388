"""A run that goes on by successors, and a Slurm that outlives whoever talks to it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import Way
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.successor import SUCCESSOR_OF, predecessor
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, Submission
from slurm_resilience.slurm.facts import JobFacts, job_facts
from slurm_resilience.supervisor.ending import Conclusion, Ending, Seen
from slurm_resilience.supervisor.entrance import Entrance
from slurm_resilience.supervisor.succession import Succession
from tests.faults.fake_slurm import FakeSlurm, running
from tests.faults.test_ending import SEEN, World
from tests.unit.cli.told_runs import own

ENVIRONMENT = {"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_CPU_BIND": "mask_cpu:0x1"}
DIED = Seen(None, (), True, 2, None)


class KeptSlurm(FakeSlurm):
    """It lives in another process, as far as a supervisor can tell: what it did stays done when that one dies."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"7": running()})
        self.file = folder / "slurm"

    def keep(self) -> None:
        self.file.write_bytes(pickle.dumps((self.jobs, self.submitted, self.cancelled, self.requeued)))

    def remember(self) -> None:
        if self.file.exists():
            self.jobs, self.submitted, self.cancelled, self.requeued = pickle.loads(self.file.read_bytes())

    def submit(self, submission: Submission) -> JobRef:
        try:
            return super().submit(submission)
        finally:
            self.keep()

    def cancel(self, job: JobRef) -> None:
        super().cancel(job)
        self.keep()

    def depend_on(self, job: JobRef, dependency: str) -> None:
        super().depend_on(job, dependency)
        self.keep()

    def requeue(self, job: JobRef) -> None:
        try:
            super().requeue(job)
        finally:
            self.keep()


@dataclass
class Link:
    """The world of test_ending.py, with successors."""

    world: World
    slurm: KeptSlurm

    @property
    def may_be_requeued(self) -> bool:
        return self.slurm.jobs["7"].requeue

    @property
    def chain(self) -> Chain:
        return Chain.of(self.world.journal.read())

    @property
    def attempt(self) -> Attempt:
        return self.world.attempt()

    def begin(self, job: str = "7", restart_count: int = 0) -> None:
        """An attempt of a supervisor on another host, about which only Slurm can say something."""
        number = self.world.begin(restart_count, job)
        own(self.world.run, number, host="node17", job=job, cluster="fake")

    def succession(self, slurm: FakeSlurm | None = None) -> Succession:
        return Succession(Journal(self.world.run, clock=self.world.clock), slurm or self.slurm, ENVIRONMENT)

    def ending(self, patience_s: float = 60.0) -> Ending:
        ending = self.world.ending(Way.CHAIN, patience_s)
        return replace(ending, slurm=self.slurm, succession=self.succession(), limits=Limits())

    def conclude(self, seen: Seen = SEEN) -> Conclusion:
        return self.ending().conclude(self.world.number, seen)

    def make_sure(self) -> object:
        return self.succession().make_sure(self.world.number)

    @property
    def waiting(self) -> list[JobRecord]:
        return [record for record in self.slurm.jobs.values() if record.state is JobState.PENDING]

    def is_over(self, state: JobState) -> None:
        self.slurm.jobs["7"] = replace(self.slurm.jobs["7"], state=state)

    def start(self, job: JobRef) -> int | None:
        """Slurm starts a successor: whether it leaves at once, and with what code."""
        self.slurm.jobs[job] = replace(self.slurm.jobs[job], state=JobState.RUNNING)
        facts = facts_of(job)
        said = self.slurm.submitted[job].environment[SUCCESSOR_OF]
        comment = self.slurm.jobs[job].comment
        before = predecessor(self.chain, job=job, restart_count=0, said=said, comment=comment)
        entrance = Entrance(
            self.world.run,
            self.world.journal,
            self.world.clock,
            self.ending(),
            lambda _: Liveness.GONE,
            self.world.said.append,
            0.0,
        )
        return entrance.turned_away(self.chain, facts, "fake", successor=before is not None)


def facts_of(job: str) -> JobFacts:
    facts = job_facts({"SLURM_JOB_ID": job, "ENVIRONMENT": "BATCH", "SLURM_CLUSTER_NAME": "fake"})
    assert facts is not None
    return facts


def make_link(folder: Path) -> Link:
    world = World(folder)
    world.slurm = KeptSlurm(folder)
    found = Link(world, world.slurm)
    found.begin()
    return found
