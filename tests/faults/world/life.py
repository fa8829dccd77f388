"""The processes of ours in a job: the batch script with the real supervisor in it, and its deputy."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ResilienceError
from slurm_resilience.launch.plan import Plan, read_plan
from slurm_resilience.manifest.attempt import release
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import RunId
from slurm_resilience.requeue.decision import Way
from slurm_resilience.signals.ladder import LAST_WORDS_S
from slurm_resilience.slurm.facts import job_facts
from slurm_resilience.supervisor import supervise
from slurm_resilience.supervisor.deputy import PATIENCE_S
from slurm_resilience.supervisor.ending import Ending, Seen
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.preparation import Granted, Prepared
from slurm_resilience.supervisor.step import StepEnd, StepWatch
from slurm_resilience.supervisor.succession import Succession
from slurm_resilience.supervisor.supervise import Supervisor
from slurm_resilience.supervisor.surroundings import Mode, Shape
from tests.faults.world.clock import Process, VirtualTime
from tests.faults.world.cluster import Life

if TYPE_CHECKING:
    from tests.faults.world.world import World

TICK_S = 10.0
"""How often a supervisor looks around while nobody tells it anything."""


class Ear(Notices):
    """What a process is sent, without real signals: those go to the main thread of a real process alone."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def __enter__(self) -> Ear:  # noqa: PYI034  # Self is new in 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> list[signal.Signals]:
        process = self._time.current
        assert process is not None
        if not process.signals:
            process.sleep(seconds)
        heard, process.signals = process.signals, []
        return heard

    def pause(self, seconds: float, clock: Clock) -> list[signal.Signals]:
        return self.wait(seconds)


@contextlib.contextmanager
def ears(time: VirtualTime) -> Iterator[None]:
    """The one thing that is patched: `supervise` opens its Notices itself, and they need a main thread each."""
    with mock.patch.object(supervise, "Notices", return_value=Ear(time)):
        yield


class PlayedStep(StepWatch):
    """StepWatch with a played training in place of srun."""

    world: World
    life: Life

    def watch(self, notices: Notices, heard: Sequence[signal.Signals] = ()) -> StepEnd:
        child: Any = None  # only a person's second interrupt would be sent to it
        stops_at_s = self.world.stops_at_s(self.run, self.attempt)
        training = self.world.train(self.life, self.attempt, stops_at_s)
        for number in heard:
            self._hear(number, child)
        while True:
            left_s = TICK_S
            if self._must_leave_s is not None:
                left_s = min(left_s, max(0.1, self._must_leave_s - LAST_WORDS_S - self.clock.monotonic_s()))
            for number in notices.wait(left_s):
                self._hear(number, child)
            for reason in self._ordered:
                training.hear(reason, "the supervisor's word")
            if training.over:
                return self._end(training.code)
            if self._must_leave_s is not None and self.clock.monotonic_s() >= self._must_leave_s - LAST_WORDS_S:
                return self._end(None)
            self._look_at_records()
            if not self._ordered:
                self.beside()
            _settle_questions()


def _settle_questions() -> None:
    """Their threads take no virtual time, so that nothing depends on how long they take."""
    for thread in threading.enumerate():
        if thread.name in ("why", "successor", "end of time"):
            thread.join(10.0)


@dataclass(frozen=True, kw_only=True)
class WorldSupervisor(Supervisor):
    world: World
    life: Life

    def _prepare(
        self,
        number: int,
        run_id: RunId,
        granted: Granted,
        chain: Chain | None,
        environment: Mapping[str, str],
        without: tuple[str, ...] = (),
    ) -> Prepared:
        self.life.attempt = number
        return super()._prepare(number, run_id, granted, chain, environment, without)

    def _watch(
        self,
        number: int,
        prepared: Prepared,
        granted: Granted,
        beside: Callable[[], None],
        preempting: Callable[[], bool],
    ) -> StepWatch:
        played = PlayedStep.__new__(PlayedStep)
        played.__dict__.update(vars(super()._watch(number, prepared, granted, beside, preempting)))
        played.world, played.life = self.world, self.life
        return played


def batch_script(world: World, life: Life) -> Process:
    """`exec srun-resilient …`, on the life's first node."""
    array, _, task = life.job.partition("_")
    environment = {
        **world.cluster.environments.get(life.job, {}),
        "PATH": "/bin",
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": "fake",
        "SLURM_JOB_ID": array,
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": f"n[{','.join(sorted(node[1:] for node in life.nodes))}]",
        "SLURM_JOB_PARTITION": "low",
        **({"SLURM_RESTART_COUNT": str(life.restarts)} if life.restarts else {}),
        **({"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task} if task else {}),
    }

    def work(process: Process) -> int:
        def say(text: str) -> None:
            world.tell(f"{process.name}: {text}")

        facts = job_facts(environment)
        supervisor = WorldSupervisor(
            world.request, Mode.BATCH, Shape(2, 1, None), facts, world.cluster, world.clock, environment, world.run,
            say, world=world, life=life,
        )  # fmt: skip
        try:
            code = supervisor.supervise()
        except ResilienceError as error:
            say(str(error))
            code = error.exit_code
        say(f"leaves with {code}")
        return code

    def at_end(process: Process) -> None:
        world.process_is_over(process)
        world.cluster.batch_is_over(life)

    return Process(world.time, f"batch {life.name}", life.nodes[0], work, at_end)


def deputy(world: World, life: Life) -> Process:
    """As supervisor/deputy.py does it, which makes its own client and clock. Sent by the first node's agent."""

    def work(process: Process) -> int:
        def say(text: str) -> None:
            world.tell(f"{process.name}: {text}")

        assert life.attempt is not None
        plan = read_plan(world.run.plan(life.attempt))
        if not plan.can_requeue:
            return 0
        journal = Journal(world.run, clock=world.clock)
        ending = Ending(
            world.run,
            journal,
            world.cluster,
            world.clock,
            plan.limits,
            lambda _: _way(plan),
            say,
            world.clock.monotonic_s() + PATIENCE_S,
            Succession(journal, world.cluster, world.environment) if plan.chain else None,
        )
        try:
            conclusion = ending.conclude(life.attempt, Seen(None, (), True, plan.tasks, plan.end_s))
            release(world.run, life.attempt, journal=journal)
        except ResilienceError as error:
            say(str(error))
            return error.exit_code
        say(f"{conclusion.because}: {conclusion.decision.reason}; {conclusion.outcome}")
        return 0 if conclusion.carried_out else 1

    def at_end(process: Process) -> None:
        world.process_is_over(process)
        world.cluster.deputy_is_over(life)

    process = Process(world.time, f"deputy {life.name}", life.nodes[0], work, at_end)
    if life.kill_deputy_at is not None:
        process.kill_at_line(life.kill_deputy_at)
    return process


def _way(plan: Plan) -> Way:
    return Way.CHAIN if plan.chain else Way.REQUEUE
