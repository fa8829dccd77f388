"""One run from its submission to its end, under a schedule of faults: the real code in a Slurm that is played."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import socket
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from slurm_resilience.launch.plan import read_plan
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Line
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Identity
from slurm_resilience.slurm.client import JobRecord, JobState
from slurm_resilience.supervisor.request import ContinueBy, Dependency
from tests.faults.world import invariants
from tests.faults.world.blows import strike
from tests.faults.world.clock import EPOCH_S, Process, VirtualTime, WorldClock
from tests.faults.world.cluster import Cluster, Hooks, Life, Requeued
from tests.faults.world.faults import Blow, When, draw
from tests.faults.world.life import batch_script, deputy, ears
from tests.faults.world.person import Person
from tests.faults.world.training import Training
from tests.unit.supervisor.requests import request

WORDS = "srun torchrun train.py"
LONGEST_S = 14 * 86_400.0
MOST_EVENTS = 60_000


class World:
    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.schedule = draw(seed)
        self.dice = random.Random(seed + 1)  # nobody's secret
        self.time = VirtualTime(at_wake=self._show_lease)
        self.clock = WorldClock(self.time)
        self.run = RunDirectory(folder / "run")
        self.story: list[str] = []
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.trainings: list[tuple[Life, Training]] = []
        self.lives: list[Life] = []
        self.truth = invariants.Truth()
        setting = self.schedule.setting
        hooks = Hooks(self._batch, self._deputy, self.tell, self._requeued, self._cancelling)
        self.cluster = Cluster(self.time, setting, self.dice, hooks)
        self.environment = {"PATH": "/bin"}
        self.request = replace(
            request(WORDS, limits=setting.limits),
            run_dir=self.run.path,
            continue_by=ContinueBy.CHAIN if setting.chain else ContinueBy.REQUEUE,
            dependency=Dependency.SINGLETON if setting.singleton else Dependency.AFTERANY,
        )
        self.person = Person(self)
        self._blows = list(self.schedule.blows)
        self._armed = True
        self._seen_pending: set[tuple[str, int]] = set()
        self._me = Identity.of_this_process()

    def live(self) -> World:
        """To the end of the run, or to the first law that is broken."""
        self.tell(f"seed {self.seed}: {self.schedule.setting}")
        for blow in self.schedule.blows:
            self.tell(f"to come: {blow}")
        self.person.submit("the first time")
        self.time.after(self.person.PAUSE_S, self.person.look)
        with ears(self.time):
            events = 0
            while not self.violations and not self._is_over() and self.time.go_on():
                self._notice()
                events += 1
                if events > MOST_EVENTS or self.time.now_s > EPOCH_S + LONGEST_S:
                    self.violate("the run never comes to an end")
            self._end_everything()
        if not self.violations:
            invariants.check_the_end(self)
        return self

    def tell(self, text: str) -> None:
        self.story.append(f"{self.time.now_s - EPOCH_S:9.1f}  {text}")

    def violate(self, law: str) -> None:
        self.violations.append(law)
        self.tell(f"BROKEN: {law}")

    def whole_story(self) -> str:
        journal = [f"{line.seq:4d} {line.time_s - EPOCH_S:9.1f}  {line.record}" for line in self.lines()]
        return "\n".join([*self.story, "journal:", *journal, *(f"BROKEN: {law}" for law in self.violations)])

    def lines(self) -> list[Line]:
        journal = Journal(self.run, clock=self.clock)
        return journal.read() if journal.exists() else []

    def chain(self) -> Chain | None:
        lines = self.lines()
        return Chain.of(lines) if lines else None

    def finished(self) -> bool:
        chain = self.chain()
        return chain is not None and chain.finished

    def waiting(self) -> list[JobRecord]:
        return [each for each in self.cluster.jobs.values() if each.state is JobState.PENDING]

    def newest_life(self) -> Life | None:
        return max(self.cluster.under_way.values(), key=lambda life: life.start_s, default=None)

    def stops_at_s(self, run: RunDirectory, attempt: int) -> float | None:
        plan = read_plan(run.plan(attempt))
        return None if plan.end_s is None else plan.end_s - plan.stop_before_end_s

    def train(self, life: Life, attempt: int, stops_at_s: float | None) -> Training:
        def at_end() -> None:
            self.tell(f"the step of attempt {attempt} leaves with {training.code} after step {training.step}")
            self.happened(When.STEP_ENDS)
            self.cluster.training_is_over(life)

        def resumed(training: Training, before: Chain) -> None:
            self.tell(f"attempt {attempt} goes on from step {training.step}")
            invariants.check_who_trains(self, life, training)
            self.happened(When.TRAINING)

        journal = Journal(self.run, clock=self.clock)
        training = Training(
            self.time, self.run, journal, attempt, life.nodes, stops_at_s=stops_at_s, resumed=resumed, at_end=at_end
        )
        life.training = training
        self.trainings.append((life, training))
        if life.ending:
            training.hear("TERMINATION", "SIGTERM")
        return training

    def happened(self, when: When) -> None:
        if self._armed and self._blows and self._blows[0].when is when:
            self._armed = False
            blow = self._blows.pop(0)
            self.time.after(blow.after_s, lambda: self._strike(blow))

    def _strike(self, blow: Blow) -> None:
        self._armed = True
        dice = random.Random(blow.dice)
        at_s = 0.0
        for fault, after_s in blow.faults:
            at_s += after_s
            self.time.after(at_s, lambda fault=fault: strike(self, fault, dice))  # type: ignore[misc]

    def process(self, name: str, node: str, work: Callable[[Process], int]) -> Process:
        """One that belongs to no job."""
        made = Process(self.time, name, node, work, self.process_is_over)
        made.start()
        return made

    def process_is_over(self, process: Process) -> None:
        if process.error is not None:
            told = "".join(traceback.format_exception(process.error))
            self.violate(f"{process.name} fell over: {told}")
        if process.killed:
            self.tell(f"{process.name} is killed: {process.died_at}")
            where = process.died_at.partition("/")[0] if ":" in process.died_at else process.died_at
            self.counts[f"death: {process.name.partition(' ')[0]}: {where}"] += 1
            if "manifest" in process.died_at:
                gc.collect()  # a lock whose holder died between two lines is let go with its frames

    def _batch(self, life: Life) -> Process:
        self.lives.append(life)
        self.happened(When.BEGIN)
        return batch_script(self, life)

    def _deputy(self, life: Life) -> Process:
        return deputy(self, life)

    def _requeued(self, requeued: Requeued) -> None:
        invariants.check_a_requeue(self, requeued)

    def _cancelling(self, process: Process, record: JobRecord) -> None:
        invariants.check_a_cancellation(self, process, record)

    def _notice(self) -> None:
        for record in self.waiting():
            key = record.job, record.restarts
            if key not in self._seen_pending:
                self._seen_pending.add(key)
                self.happened(When.PENDING)

    def _is_over(self) -> bool:
        if self.cluster.under_way or self.waiting() or self.person.is_busy:
            return False
        if any(not process.over for life in self.cluster.ghosts for process in life.processes):
            return False
        return self.finished()

    def _end_everything(self) -> None:
        for life in self.lives:
            self.cluster.kill_all(life)
        self.person.end()
        while any(not process.over for life in self.lives for process in life.processes) or self.person.is_busy:
            if not self.time.go_on():
                break

    def _show_lease(self, process: Process) -> None:
        """The lease as it looks from the node of `process`: only there can it be told whether its owner's process
        lives. All are one process in truth."""
        try:
            raw = self.run.lease.read_bytes()
        except FileNotFoundError:
            return
        told = json.loads(raw)
        owner = next(
            (life for life in self.lives if life.job == told["job"] and life.restarts == (told["restart_count"] or 0)),
            None,
        )
        if owner is None or owner.batch is None:
            return
        here = owner.nodes[0] == process.node
        ticks = 1 if owner.batch.over else self._me.started_ticks
        shown = {**told, "host": socket.gethostname() if here else owner.nodes[0], "started_ticks": ticks}
        if shown != told:
            self.run.lease.write_text(json.dumps(shown))


@contextlib.contextmanager
def memory_folder(otherwise: Path) -> Iterator[Path]:
    """Where a world lies: what a disk does to a journal is tried elsewhere, and thousands of fsyncs are slow there."""
    shared_memory = Path("/dev/shm")  # a private folder is made in it
    parent = shared_memory if os.access(shared_memory, os.W_OK) else otherwise
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)
