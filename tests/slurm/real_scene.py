"""The situations of the contract (tests/contract), made in a real Slurm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_resilience.command import run
from slurm_resilience.slurm.client import JobRef, SlurmClient, Submission
from slurm_resilience.slurm.command_line import CommandLineSlurm
from slurm_resilience.slurm.commands import Runner
from tests.contract.recorded_slurm import submission
from tests.contract.slurm_scene import SCRIPT, SHELL_SIGNALLED, STEP_SIGNALLED, T
from tests.slurm.jobs import PATIENCE_S, Jobs, wait_until

SLEEP = "sleep 600"
HASTY_S = 2.0
LISTENING = f"""\
trap 'exit {SHELL_SIGNALLED}' USR1
srun --ntasks=1 bash -c 'trap "exit {STEP_SIGNALLED}" USR1; echo listening; while :; do sleep 0.1; done' &
wait $!
"""


@dataclass
class RealScene:
    jobs: Jobs
    client: SlurmClient
    made: list[str] = field(default_factory=list)
    """Every job that was handed out, in order."""

    runner: Runner = run

    @classmethod
    def of(cls, jobs: Jobs, runner: Runner = run) -> RealScene:
        client = CommandLineSlurm(environment=jobs.cluster.environment(), runner=runner)
        return cls(jobs, client, runner=runner)

    @property
    def kill_wait_s(self) -> int:
        return self.jobs.cluster.spec.kill_wait_s

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.jobs.cluster.node_names

    def _hand_out(self, job: str) -> JobRef:
        self.made.append(job)
        return JobRef(job)

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef:
        job = self.jobs.submit(SLEEP, job_name=name, nodes=2, requeue=requeue, no_requeue=not requeue)
        self.jobs.wait_state(job, "RUNNING")
        return self._hand_out(job)

    def listening(self) -> JobRef:
        job = self.jobs.submit(LISTENING)
        self.jobs.wait_output(job, "listening")
        return self._hand_out(job)

    def array(self) -> tuple[JobRef, JobRef]:
        job = self.jobs.submit(SLEEP, array="0-1")
        for task in (0, 1):
            self.jobs.wait_state(f"{job}_{task}", "RUNNING")
        return self._hand_out(f"{job}_0"), self._hand_out(f"{job}_1")

    def held(self) -> JobRef:
        return self._hand_out(self.jobs.submit(SLEEP, hold=True))

    def waiting(self) -> JobRef:
        other = self.jobs.submit(SLEEP, hold=True)
        return self._hand_out(self.jobs.submit(SLEEP, dependency=f"afterany:{other}"))

    def ended(self, code: int) -> JobRef:
        return self._over(f"exit {code}")

    def killed(self) -> JobRef:
        return self._over("kill -KILL $$")

    def _over(self, script: str) -> JobRef:
        job = self.jobs.submit(script)
        self.jobs.wait_end(job)
        return self._hand_out(job)

    def cancelled(self) -> JobRef:
        job = self.jobs.submit(SLEEP)
        self.jobs.wait_state(job, "RUNNING")
        self.jobs.cancel(job)
        self.jobs.wait_end(job)
        return self._hand_out(job)

    def preempted(self) -> JobRef:
        job = self.jobs.submit(SLEEP)
        self.jobs.wait_state(job, "RUNNING")
        self.jobs.preempt(job)
        wait_until(
            lambda: self.jobs.show(job).get("PreemptTime", "None") != "None", f"job {job} is not preempted", PATIENCE_S
        )
        return self._hand_out(job)

    def unknown(self) -> JobRef:
        return self._hand_out("67000000")

    def submission(self, *options: str, script: str = SCRIPT) -> Submission:
        return submission(options, script, self.jobs.cluster.environment())

    def started(self, job: JobRef) -> None:
        self.jobs.wait_state(job, "RUNNING")

    def over(self, job: JobRef) -> None:
        self.jobs.wait_end(job)

    def settled(self, job: JobRef) -> None:
        self.jobs.wait_state(job, "PENDING")

    def while_drained(self, node: str, reason: str, ask: Callable[[], T]) -> T:
        update = ("scontrol", "update", f"NodeName={node}")
        self.jobs.ask(*update, "State=DRAIN", f"Reason={reason}")
        try:
            return ask()
        finally:
            self.jobs.ask(*update, "State=RESUME")

    def while_silent(self, ask: Callable[[], T], *, hasty: bool = False) -> T:
        patient = self.client
        self.jobs.cluster.stop_controller()
        try:
            if hasty:
                self.client = CommandLineSlurm(
                    environment=self.jobs.cluster.environment(), timeout_s=HASTY_S, runner=self.runner
                )
            return ask()
        finally:
            self.client = patient
            self.jobs.cluster.start_controller()
