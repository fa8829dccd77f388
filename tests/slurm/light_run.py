"""A light training on the real cluster, what is done to it by a schedule, and what must be true whatever was done."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptResumed, AttemptStarted, CheckpointCommitted, Line
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.fault_schedule import Blow, Fault
from tests.slurm.jobs import ENDED, Jobs, leftovers, wait_until
from tests.slurm.light_training import value_after

ROOT = Path(__file__).parents[2]
STEPS, SAVE_EVERY, STEP_S = 120, 7, 0.1
PATIENCE_S = 240.0
SILENT_AFTER_S = "30"
"""Sooner than by default; an agent that is alive is heard in that time, however busy the machine is."""
LIMITS = "--max-stuck=40 --max-crashes=40 --max-node-failures=40 --max-never-started=40 --max-quarantines=1"
"""So high that nobody gives up because of what we do to it."""
_CONTROLLER = threading.Lock()
"""One of the runs of a cluster at a time takes it away; what must have its answer asks while nobody does."""


@dataclass
class LightRun:
    jobs: Jobs
    name: str
    options: str = ""
    before: str = ""
    """Lines of the batch script before the training's."""
    steps: int = STEPS
    later_step_s: float = STEP_S
    """How long a step takes from the second attempt on, or from `finishes_in` on."""
    finishes_in: int = 1
    """The attempt that may take the last step; earlier ones wait there, however late what is done to them comes."""
    job: str = ""
    submissions: int = 0
    resumes: list[str] = field(default_factory=list)
    """What a person had to do, and after which fault."""
    log: list[str] = field(default_factory=list)
    repairs: list[threading.Thread] = field(default_factory=list)

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.jobs.folder / self.name)

    @property
    def marker(self) -> str:
        return f"light-{os.getpid()}-{self.jobs.folder.name}-{self.name}"

    @property
    def words(self) -> str:
        """srun-resilient with the training behind it."""
        training = f"{ROOT}/tests/slurm/light_training.py {self.steps} {SAVE_EVERY} {STEP_S} {self.later_step_s}"
        training += f" {self.finishes_in}"
        return (
            f"{sys.executable} -m slurm_resilience.cli.srun_resilient --plain --run-dir={self.run.path} {LIMITS} "
            f"{self.options} {sys.executable} {training}"
        )

    def submit(self, **sbatch: object) -> None:
        options: dict[str, object] = {
            "nodes": 2,
            "ntasks_per_node": 1,
            "cpus_per_task": 8,  # a whole node: nobody else's blow hits it by accident
            "requeue": True,
            "job_name": self.name,
            "time": "20",
        }
        self.job = self.jobs.submit(
            f"{self.before}\nexec {self.words}",
            env={"PYTHONPATH": str(ROOT), "SLURM_RESILIENCE_SILENT_AFTER": SILENT_AFTER_S},
            marker=self.marker,
            **options | sbatch,
        )
        self.submissions += 1
        self.note(f"submitted as {self.job}")

    def note(self, text: str) -> None:
        self.log.append(f"{time.strftime('%H:%M:%S')} {text}")

    def lines(self) -> list[Line]:
        return Journal(self.run).read() if self.run.journal.exists() else []

    @property
    def chain(self) -> Chain | None:
        lines = self.lines()
        return Chain.of(lines) if lines else None

    @property
    def newest(self) -> Attempt | None:
        chain = self.chain
        return chain.newest_attempt if chain is not None else None

    @property
    def finished(self) -> bool:
        chain = self.chain
        return chain is not None and chain.finished

    def story(self) -> str:
        journal = self.run.journal.read_text() if self.run.journal.exists() else "(no journal)"
        return "\n".join([f"run {self.name}", *self.log, journal[-6000:], self.jobs.output(self.job)[-3000:]])

    def endure(self, schedule: tuple[Blow, ...]) -> None:
        """Every blow at an attempt of its own where there is one in time, and then to the end in peace."""
        self.submit()
        struck = 0
        for blow in schedule:
            if not self._wait_for_an_attempt(struck):
                break
            newest = self.newest
            assert newest is not None
            struck = newest.number
            time.sleep(blow.after_s)
            self.note(f"attempt {struck}: {blow.fault.value}")
            self.strike(blow, newest)
        self._wait_until_over(lambda: self.finished)
        self.wait_told()
        for repair in self.repairs:
            repair.join()

    def wait_told(self) -> None:
        """Until the run is finished and nothing of it is left to do."""
        wait_until(lambda: self.finished, lambda: f"it never finished\n{self.story()}", PATIENCE_S)
        # A job on a node without a slurmd is COMPLETING until Slurm gives that node up.
        wait_until(self._everything_is_told, lambda: f"nobody told the end\n{self.story()}", PATIENCE_S)

    def wait_training(self, attempt: int = 1, *, saves: int = 1) -> None:
        """Until this attempt has committed that many checkpoints."""

        def committed() -> bool:
            chain = self.chain
            found = chain.attempt(attempt) if chain is not None else None
            return found is not None and len(found.checkpoints) >= saves

        wait_until(committed, lambda: f"attempt {attempt} never saved {saves} times\n{self.story()}", PATIENCE_S)

    @property
    def causes(self) -> list[str]:
        chain = self.chain
        assert chain is not None
        return [attempt.ended.cause.value if attempt.ended is not None else "" for attempt in chain.attempts]

    @property
    def resumed_steps(self) -> list[int]:
        chain = self.chain
        assert chain is not None
        return [attempt.resumed.step for attempt in chain.attempts if attempt.resumed is not None]

    def _everything_is_told(self) -> bool:
        newest = self.newest
        return newest is not None and newest.ended is not None and self.jobs.state(self.job) in ENDED

    def _wait_for_an_attempt(self, after: int) -> bool:
        """Until an attempt newer than `after` holds its state; False: the run is finished."""

        def there() -> bool:
            newest = self.newest
            return newest is not None and newest.number > after and newest.resumed is not None

        self._wait_until_over(lambda: self.finished or there())
        return not self.finished

    def _wait_until_over(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing happened any more\n{self.story()}")
            self._be_the_person()
            time.sleep(0.3)

    def _be_the_person(self) -> None:
        """Who finds the job over and the run not finished has two ways: resume, and to submit it again."""
        state = self.jobs.state(self.job)
        if state not in ENDED or self.finished:
            return
        time.sleep(1.0)  # what ends may still be told
        if self.jobs.state(self.job) not in ENDED:
            return
        answer = self.jobs.cluster.run(
            *(sys.executable, "-m", "slurm_resilience.cli.main", "resume", str(self.run.path)),
            env={"PYTHONPATH": str(ROOT)},
            timeout_s=PATIENCE_S,
        )
        self.note(f"the job is {state}; resume left with {answer.code}: {answer.out.strip()} {answer.err.strip()}")
        self.resumes.append(f"{state}: {answer.out.strip()}")
        if answer.code not in (0, 75):
            with _CONTROLLER:
                self.submit()

    def strike(self, blow: Blow, attempt: Attempt) -> None:
        match blow.fault:
            case Fault.PREEMPT:
                with _CONTROLLER:
                    self._preempt()
            case Fault.REQUEUE_BY_HAND:
                self.jobs.requeue(self.job)
            case Fault.WARN:
                self.jobs.cluster.run("scancel", "--signal=USR1", self.job)
            case Fault.KILL_TRAINING:
                self.kill_training()
            case Fault.KILL_AGENT:
                self._kill_agent(attempt, blow.node)
            case Fault.KILL_SUPERVISOR:
                self.kill("cli.srun_resilient")
            case Fault.KILL_EVERYTHING:
                self.kill("slurm_resilience", "light_training.py")
            case Fault.KILL_SLURMD:
                self._kill_slurmd(blow.node)
            case Fault.RESTART_CONTROLLER:
                self._without_controller(lambda: None, 2.0)
            case Fault.PREEMPT_WITHOUT_CONTROLLER:
                self._without_controller(self._preempt, 6.0)
            case Fault.LOWER_THE_TIME_LIMIT:
                self.jobs.cluster.run("scontrol", "update", f"JobId={self.job}", "TimeLimit=1")

    def _preempt(self) -> None:
        shown = self.jobs.show(self.job)
        if shown.get("JobState") == "RUNNING":
            self.jobs.preempt(self.job)

    def _without_controller(self, before: Callable[[], None], seconds: float) -> None:
        with _CONTROLLER:
            before()
            time.sleep(0.5)
            self.jobs.cluster.stop_controller()
            time.sleep(seconds)
            self.jobs.cluster.start_controller()

    def kill_training(self) -> None:
        """Supervisor and agents have its name in their command lines, too."""
        self.kill("light_training.py", but="slurm_resilience")

    def kill(self, *words: str, but: str | None = None) -> None:
        """SIGKILL to what has one of `words` in its command line, and not `but`."""
        for process in leftovers(self.marker):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if any(word in line for word in words) and (but is None or but not in line):
                    os.kill(process.pid, signal.SIGKILL)

    def _kill_agent(self, attempt: Attempt, node: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(self.run.agent_record(attempt.number, node).read_bytes())
            os.kill(int(record["pid"]), signal.SIGKILL)

    def _kill_slurmd(self, node: int) -> None:
        nodes = self.jobs.cluster.run("scontrol", "show", "hostnames", self.jobs.show(self.job).get("NodeList", ""))
        names = nodes.out.split()
        if nodes.code == 0 and len(names) > node and self.jobs.cluster.slurmd_alive(names[node]):
            self.jobs.cluster.kill_slurmd(names[node])
            # An admin comes when it has been noticed: until then the job's other nodes are not free either.
            later = threading.Timer(40.0, self._repair)
            later.daemon = True
            later.start()
            self.repairs.append(later)

    def _repair(self) -> None:
        with _CONTROLLER:
            self.jobs.start_slurmds()

    def check(self) -> None:
        """The invariants of the design, from the journal and from Slurm's own count."""
        chain, lines = self.chain, self.lines()
        assert chain is not None
        assert chain.finished, self.story()
        self._check_nothing_lost(lines)
        self._check_one_at_a_time(lines)
        self._check_every_end_is_explained(chain)
        with _CONTROLLER:
            restarts = int(self.jobs.show(self.job)["Restarts"])
        # A restart may be over before it began; never is there an attempt that no start of Slurm's stands behind.
        if self.submissions == 1 and "chain" not in self.options:
            assert len(chain.attempts) <= restarts + 1, self.story()
        final = chain.loadable()[0].committed
        assert final.step == self.steps, self.story()
        state = json.loads((self.run.path / final.parts[0].file).read_bytes())
        assert state["value"] == value_after(self.steps), self.story()
        wait_until(lambda: leftovers(self.marker) == [], lambda: f"left over: {leftovers(self.marker)}", 120)

    def _check_nothing_lost(self, lines: list[Line]) -> None:
        """Every attempt goes on from the newest checkpoint there was; none starts at step 0 once there was one."""
        newest = 0
        for line in lines:
            match line.record:
                case CheckpointCommitted(step=step):
                    newest = max(newest, step)
                case AttemptResumed(step=step):
                    assert step == newest, f"went on from step {step} and not {newest}\n{self.story()}"

    def _check_one_at_a_time(self, lines: list[Line]) -> None:
        """Nothing of an older attempt is committed once a newer one has started."""
        running = 0
        for line in lines:
            match line.record:
                case AttemptStarted(attempt=attempt):
                    running = max(running, attempt)
                case CheckpointCommitted(attempt=attempt) | AttemptResumed(attempt=attempt):
                    assert attempt == running, self.story()

    def _check_every_end_is_explained(self, chain: Chain) -> None:
        for attempt in chain.attempts:
            assert attempt.ended is not None, self.story()
            assert attempt.ended.because, self.story()
            assert attempt.ended.decision_reason, self.story()
