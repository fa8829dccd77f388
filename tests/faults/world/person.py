"""Whose run it is: looks now and then, and helps where nothing runs, nothing waits and the run isn't finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_resilience.errors import ResilienceError
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.supervisor.afterwards import Afterwards
from tests.faults.world import invariants
from tests.faults.world.clock import Process

if TYPE_CHECKING:
    from tests.faults.world.world import World

MOST_INTERVENTIONS = 25


class Person:
    PAUSE_S = 400.0

    def __init__(self, world: World) -> None:
        self._world = world
        self._jobs = 0
        self._quiet = 0
        self._tries = 0
        self._helped = 0
        self._attempts = 0
        self._processes: list[Process] = []

    @property
    def is_busy(self) -> bool:
        return any(not process.over for process in self._processes)

    def end(self) -> None:
        for process in self._processes:
            process.kill()

    def look(self) -> None:
        world = self._world
        world.time.after(self.PAUSE_S, self.look)
        chain = world.chain()
        attempts = len(chain.attempts) if chain is not None else 0
        if attempts > self._attempts:
            self._attempts, self._tries = attempts, 0
        stuck = [record for record in world.waiting() if record.held and "launch" in record.reason]
        if stuck and not world.cluster.under_way:
            world.cluster.cancel_by_hand(stuck[0].job, 1000)
            self._note("submit", "Slurm holds it: too many launch failures")
            self.submit("again, as Slurm holds the job")
            return
        quiet = not world.cluster.under_way and not world.waiting() and not self.is_busy
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet < 2 or world.finished():
            return
        self._help()

    def _help(self) -> None:
        world = self._world
        self._helped += 1
        if self._helped > MOST_INTERVENTIONS:
            world.violate("a person has to help again and again")
            return
        excuse = invariants.why_it_stands_still(world)
        if excuse is None:
            world.violate("the run stands still, and nothing explains it")
            return
        self._tries += 1
        chain = world.chain()
        if chain is None or world.truth.cancel_s is not None or self._tries > 3:
            self._note("submit", excuse)
            self.submit("again")
        elif self._tries == 1:
            self._note("resume", excuse)
            self.resume("resume")
        elif self._tries == 2:
            self._note("resume --anyway", excuse)
            self.resume("anyway", anyway=True)
        else:
            self._note("resume --anyway --take-over", excuse)
            self.resume("anyway", anyway=True, take_over=True)

    def _note(self, what: str, why: str) -> None:
        self._world.counts[f"help: {what}: {why}"] += 1
        self._world.tell(f"a person helps: {what}, because {why}")

    def submit(self, why: str) -> None:
        world = self._world
        self._jobs += 1
        number = 6 + self._jobs
        job = JobRef(f"{number}_3" if world.schedule.setting.array else f"{number}")
        world.truth.person_wants_it(world.time.now_s)
        world.tell(f"submits, {why}")
        world.cluster.submit_by_hand(job, dict(world.environment))

    def resume(self, name: str, *, anyway: bool = False, take_over: bool = False) -> None:
        world = self._world
        if world.chain() is None:
            return

        def work(process: Process) -> int:
            def say(text: str) -> None:
                world.tell(f"{process.name}: {text}")

            afterwards = Afterwards(
                world.run, world.cluster, world.clock, say, False, anyway, take_over, environment=world.environment
            )
            try:
                return afterwards.resume()
            except ResilienceError as error:
                say(str(error))
                return error.exit_code

        if anyway:
            world.truth.person_wants_it(world.time.now_s)
        self._processes.append(world.process(name, "login", work))
