"""What an attempt needs before it can start: what Slurm grants, what the run measured, the plan, the command line."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.errors import SlurmError
from slurm_resilience.launch.plan import CommandKind, Plan, StopTimes
from slurm_resilience.launch.srun_line import Layout, srun_argv, srun_environment
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.process_identity import Identity
from slurm_resilience.signals.ladder import Ladder, Measured, SlurmTimes, climb
from slurm_resilience.slurm.client import JobRecord, SlurmClient
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.request import ContinueBy, Request
from slurm_resilience.supervisor.surroundings import Mode, Shape

UNKNOWN_KILL_WAIT_S = 30.0
"""Slurm's default, for when it can't be asked."""
LOCAL_STOP_S = 120.0
"""Without Slurm nobody kills us: a person who ends the training waits this long for its save."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # the folder made in it is private


@dataclass(frozen=True, slots=True)
class Granted:
    """What Slurm says of this job and of itself."""

    times: SlurmTimes
    cluster: str | None
    record: JobRecord | None
    requeue_exit: tuple[int, ...]


def ask_what_is_granted(
    slurm: SlurmClient | None, facts: JobFacts | None, request: Request, now_s: float, say: Callable[[str], None]
) -> Granted:
    """Slurm's times for this job; its defaults, with a word about it, where it doesn't answer."""
    if slurm is None:
        return Granted(SlurmTimes(LOCAL_STOP_S, 0.0, None, None), None, None, ())
    record: JobRecord | None = None
    requeue_exit: tuple[int, ...] = ()
    kill_wait_s, grace_s = UNKNOWN_KILL_WAIT_S, 0.0
    cluster = facts.cluster if facts is not None else None
    try:
        configuration = slurm.configuration()
        kill_wait_s, requeue_exit = float(configuration.kill_wait_s), configuration.requeue_exit
        cluster = cluster or configuration.cluster
        record = slurm.job(facts.job) if facts is not None else None
        partition = record.partition if record else facts.partition if facts else request.srun.value("partition")
        if partition:
            grace_s = float(slurm.partition(partition.partition(",")[0]).grace_time_s)
    except SlurmError as error:
        say(f"{error}; going on with KillWait {kill_wait_s:g} s and GraceTime {grace_s:g} s")
    end_s = record.end_s if record is not None else facts.end_s if facts is not None else None
    start_s = record.start_s if record is not None else now_s
    return Granted(SlurmTimes(kill_wait_s, grace_s, end_s, start_s), cluster, record, requeue_exit)


def measured_in(chain: Chain | None) -> Measured:
    """The longest save of the run so far; steps are measured by the ranks alone."""
    seconds = [checkpoint.committed.seconds for checkpoint in chain.checkpoints] if chain is not None else []
    return Measured(save_s=max(seconds) if seconds else None)


def make_ladder(granted: Granted, chain: Chain | None, request: Request) -> Ladder:
    return climb(granted.times, measured_in(chain), request.asked)


@dataclass(frozen=True, slots=True)
class Prepared:
    plan: Plan
    argv: tuple[str, ...]
    environment: dict[str, str]


def runtime_parent() -> Path:
    """Memory where there is some; the nodes look again for themselves."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())


def prepare(
    request: Request,
    mode: Mode,
    shape: Shape,
    ladder: Ladder,
    granted: Granted,
    *,
    run: Path,
    run_id: str,
    attempt: int,
    plan_path: Path,
    environment: Mapping[str, str],
    can_requeue: bool,
) -> Prepared:
    """Everything decided, nothing written yet."""
    me = Identity.of_this_process()
    kind = request.command.kind
    plan = Plan(
        run=str(run),
        run_id=run_id,
        attempt=attempt,
        kind=kind,
        argv=request.command.argv,
        python=request.command.python or sys.executable,
        nodes=shape.nodes,
        nproc_per_node=shape.nproc_per_node,
        rendezvous=None,
        local_addr=request.local_addr,
        interface=request.interface,
        forward_signal=request.forward_signal,
        end_s=granted.times.end_s,
        stop_before_end_s=ladder.stop_before_end_s,
        times=StopTimes(ladder.after_termination_s, ladder.after_warning_s, ladder.leave_s, ladder.peer_failed_s),
        runtime_parent=str(runtime_parent()),
        supervisor_host=me.host,
        supervisor_boot_id=me.boot_id,
        supervisor_pid=me.pid,
        supervisor_started_ticks=me.started_ticks,
        can_requeue=can_requeue,
        supervisor_pid_namespace=me.pid_namespace,
        tasks=1 if mode is Mode.LOCAL else _tasks(request, shape),
        limits=request.limits,
        chain=request.continue_by is ContinueBy.CHAIN,
    )
    agent = (sys.executable, "-m", "slurm_resilience.agent", str(plan_path))
    if mode is Mode.LOCAL:
        return Prepared(plan, agent, dict(environment))
    argv = srun_argv(request.srun, Layout(shape.nodes, shape.cpus_per_task), kind=kind, command=agent)
    return Prepared(plan, tuple(argv), srun_environment(environment, kind))


def _tasks(request: Request, shape: Shape) -> int:
    """How many node agents there will be: one a node for torchrun, one a task otherwise."""
    if request.command.kind is CommandKind.TORCHRUN:
        return shape.nodes
    total, each = request.srun.value("ntasks"), request.srun.value("ntasks-per-node")
    if total is not None and total.isdigit():
        return int(total)
    if each is not None and each.isdigit():
        return int(each) * shape.nodes
    return shape.tasks or shape.nodes
