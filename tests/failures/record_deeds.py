"""What is done to jobs from outside, while they train."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

from slurm_resilience.sandbox.process import kill_all
from tests.failures.record_stage import Stage
from tests.slurm.jobs import leftovers, wait_until

Deed = Callable[[Stage], None]
TRAINS = "step 3 loss"


def kill_rank(rank: int) -> Deed:
    def deed(stage: Stage) -> None:
        stage.wait_output(TRAINS)
        stage.signal_rank(rank, signal.SIGKILL)

    return deed


def stop_rank(rank: int) -> Deed:
    """As dead as behind a cut network: it is there and says nothing. It is killed when the others have given up."""

    def deed(stage: Stage) -> None:
        stage.wait_output(TRAINS)
        victim = stage.rank(rank)
        os.kill(victim.pid, signal.SIGSTOP)
        stage.wait_output("Timed out waiting", 120)

    return deed


def lose_node(number: int) -> Deed:
    def deed(stage: Stage) -> None:
        stage.wait_output(TRAINS)
        node = stage.nodes[number]
        # The daemons first: none may tell of the others' death, and none is stopped: a stopped orphan gets a SIGHUP.
        ours = sorted(
            stage.cluster._of_jobs(node), key=lambda process: "slurmstepd" not in stage.command_line(process.pid)
        )
        stage.cluster.sandbox.kill_slurmd(node)
        for process in ours:
            process.signal(signal.SIGKILL)
        kill_all(lambda: stage.cluster._of_jobs(node), timeout_s=20)

    return deed


def preempt(stage: Stage) -> None:
    stage.wait_output(TRAINS)
    stage.jobs.preempt(stage.job)


def cancel(stage: Stage) -> None:
    stage.wait_output(TRAINS)
    stage.jobs.cancel(stage.job)


def requeue(stage: Stage) -> None:
    stage.wait_output(TRAINS)
    assert stage.jobs.requeue(stage.job).code == 0
    stage.jobs.wait_restarts(stage.job, 1)


def preempt_and_wait(stage: Stage) -> None:
    preempt(stage)
    stage.jobs.wait_restarts(stage.job, 1, timeout_s=120)


def warn(stage: Stage) -> None:
    stage.wait_output(TRAINS)
    stage.jobs.ask("scancel", "--signal=USR1", stage.job)
    stage.jobs.wait_restarts(stage.job, 1, timeout_s=120)


def crash_and_wait(stage: Stage) -> None:
    kill_rank(1)(stage)
    stage.jobs.wait_restarts(stage.job, 1, timeout_s=120)


def kill_agent(node_id: int) -> Deed:
    def deed(stage: Stage) -> None:
        stage.wait_output(TRAINS)
        record = stage.run.agent_record(1, node_id)
        os.kill(int(json.loads(record.read_bytes())["pid"]), signal.SIGKILL)

    return deed


def kill_supervisor(stage: Stage) -> None:
    stage.wait_output(TRAINS)
    for process in leftovers(stage.marker):
        line = stage.command_line(process.pid)
        if "slurm_resilience.cli.srun_resilient" in line:
            os.kill(process.pid, signal.SIGKILL)


def terminate_launcher(number: int) -> Deed:
    """SIGTERM to one node's torchrun, as an admin or a node's shutdown sends it."""

    def deed(stage: Stage) -> None:
        stage.wait_output(TRAINS)
        node = stage.nodes[number]
        wait_until(
            lambda: stage.cluster.kill(node, stage.marker, signal.SIGTERM, "-m torch.distributed.run") > 0,
            f"there is no torchrun on {node}",
            30,
        )

    return deed
