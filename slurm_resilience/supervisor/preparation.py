"""What an attempt needs before it can start: what Slurm grants, what the run measured, the plan, the command line."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from slurm_resilience.durable_file import make_directory_durably
from slurm_resilience.errors import ManifestUnavailable, SlurmError, SlurmUnavailable
from slurm_resilience.launch.plan import CommandKind, Plan, StopTimes, write_plan
from slurm_resilience.launch.slurm_signal import signal_of_job, signal_of_srun
from slurm_resilience.launch.srun_line import (
    Layout,
    not_obeyed,
    srun_argv,
    srun_environment,
    wait_of_plain_command,
    without_nodes,
)
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Identity
from slurm_resilience.signals.ladder import Ladder, Measured, SlurmTimes, climb, refuse_what_cannot_work
from slurm_resilience.signals.user_signal import UserSignal
from slurm_resilience.slurm.client import JobRecord, SlurmClient, SlurmConfiguration
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.pulse import Pulse, silent_after_s
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
    environment: Mapping[str, str] = field(default_factory=dict)
    """Ours: what srun would obey of it."""
    release: tuple[int, int] | None = None
    """Slurm's; None: not known."""


def ask_what_is_granted(
    slurm: SlurmClient | None,
    facts: JobFacts | None,
    request: Request,
    now_s: float,
    say: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> Granted:
    """Slurm's times for this job; its defaults, with a word about it, where it doesn't answer.

    Raises ConfigurationError for what can't work in them, before an attempt has begun.
    """
    inherited = dict(environment or {})
    if slurm is None:
        times = SlurmTimes(LOCAL_STOP_S, 0.0, None, None, kill_wait_of="ours: no Slurm ends anything here")
        return Granted(times, None, None, (), inherited)
    record: JobRecord | None = None
    requeue_exit: tuple[int, ...] = ()
    times = SlurmTimes(UNKNOWN_KILL_WAIT_S, 0.0, None, None)
    cluster = facts.cluster if facts is not None else None
    script: str | None = None
    release: tuple[int, int] | None = None
    try:
        configuration = slurm.configuration()
        release = configuration.release
        requeue_exit = configuration.requeue_exit
        times = _of_cluster(times, configuration)
        cluster = cluster or configuration.cluster
        record = slurm.job(facts.job) if facts is not None else None
        partition = record.partition if record else facts.partition if facts else request.srun.value("partition")
        times = _of_partition(times, slurm, configuration, partition, record)
        script = _script(slurm, facts)
    except SlurmError as error:
        say(f"{error}; going on with KillWait {times.kill_wait_s:g} s and GraceTime {times.grace_time_s:g} s")
    end_s = record.end_s if record is not None else facts.end_s if facts is not None else None
    start_s = record.start_s if record is not None else now_s
    times = replace(times, end_s=end_s, start_s=start_s, user_signal=_user_signal(facts, request, script, inherited))
    granted = Granted(times, cluster, record, requeue_exit, inherited, release)
    refuse_what_cannot_work(_without_grace(granted), request.asked)
    return granted


def _without_grace(granted: Granted) -> SlurmTimes:
    """What ends soon because the job is being preempted says nothing about its whole time."""
    preempted = granted.record is not None and granted.record.preempted_s is not None
    return replace(granted.times, start_s=None) if preempted else granted.times


def _of_cluster(times: SlurmTimes, configuration: SlurmConfiguration) -> SlurmTimes:
    return replace(
        times,
        kill_wait_s=float(configuration.kill_wait_s),
        over_time_limit_s=float(configuration.over_time_limit_s or 0),
        preempt_mode="OFF" if configuration.preempt_type == "preempt/none" else "",
        user_signal_first=configuration.user_signal_first,
    )


def _of_partition(
    times: SlurmTimes,
    slurm: SlurmClient,
    configuration: SlurmConfiguration,
    name: str | None,
    record: JobRecord | None,
) -> SlurmTimes:
    """With what partition and QOS say of preemption and of the time limit; preempt_type says which of them counts."""
    if name:
        partition = slurm.partition(name.partition(",")[0])
        over_s = partition.over_time_limit_s
        times = replace(
            times,
            grace_time_s=float(partition.grace_time_s),
            over_time_limit_s=times.over_time_limit_s if over_s is None else float(over_s),
        )
        if configuration.preempt_type == "preempt/partition_prio":
            times = replace(times, preempt_mode=partition.preempt_mode.upper())
    if configuration.preempt_type != "preempt/qos":
        return times
    qos = slurm.qos(record.qos) if record is not None and record.qos else None
    if qos is None:  # a partition's grace doesn't count here: none is promised
        return replace(times, grace_time_s=0.0, grace_of="the QOS, which can't be asked")
    mode = configuration.preempt_mode if qos.preempt_mode == "cluster" else qos.preempt_mode
    return replace(times, grace_time_s=float(qos.grace_time_s), grace_of=f"QOS {qos.name}", preempt_mode=mode.upper())


def _script(slurm: SlurmClient, facts: JobFacts | None) -> str | None:
    """None: no batch job, or one whose script Slurm doesn't show. It is asked for its `--signal` alone."""
    if facts is None or not facts.batch:
        return None
    try:
        return slurm.batch_script(facts.job)
    except SlurmUnavailable:
        raise
    except SlurmError:
        return None


def _user_signal(
    facts: JobFacts | None, request: Request, script: str | None, environment: Mapping[str, str]
) -> UserSignal | None:
    if facts is None:
        return signal_of_srun(request.srun)
    return signal_of_job(script, environment) if facts.batch else None


def measured_in(chain: Chain | None) -> Measured:
    """The longest save of the run so far, and its slowest steps: between two checkpoints of one attempt, on average."""
    if chain is None:
        return Measured()
    saves = [checkpoint.committed.seconds for checkpoint in chain.checkpoints]
    steps = []
    for before, after in pairwise(chain.checkpoints):
        count = after.committed.step - before.committed.step
        if count > 0 and after.committed.attempt == before.committed.attempt:
            steps.append(max(0.0, after.time_s - before.time_s) / count)
    return Measured(step_s=max(steps, default=None), save_s=max(saves, default=None))


def to_avoid(chain: Chain | None) -> tuple[str, ...]:
    """The nodes that the run is not to have again."""
    ends = [attempt.ended for attempt in chain.attempts if attempt.ended is not None] if chain is not None else []
    return tuple(dict.fromkeys(node for ended in ends for node in ended.exclude))


def make_ladder(granted: Granted, chain: Chain | None, request: Request) -> Ladder:
    """Raises ConfigurationError for what can't work at all."""
    asked, kind = request.asked, request.command.kind
    if kind is CommandKind.TASK:
        asked = replace(asked, wait_s=wait_of_plain_command(request.srun, granted.environment))
    ladder = climb(_without_grace(granted), measured_in(chain), asked)
    ignored = not_obeyed(request.srun, granted.environment, kind)
    return replace(ladder, inversions=(*ladder.inversions, *ignored))


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
    plugin: bool = False,
    avoid: Collection[str] = (),
) -> Prepared:
    """Everything decided, nothing written yet. `plugin`: srun knows our plugin. `avoid`: nodes that srun, where it gets
    the nodes itself, must not take."""
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
        chain_dependency=request.dependency.value,
        start_s=granted.record.start_s if granted.record is not None else None,
        over_time_limit_s=granted.times.over_time_limit_s,
        shutdown_timeout_s=ladder.shutdown_timeout_s,
        beat_s=Pulse(silent_after_s(environment)).beat_s or None,
    )
    agent = (sys.executable, "-m", "slurm_resilience.agent", str(plan_path))
    if mode is Mode.LOCAL:
        return Prepared(plan, agent, dict(environment))
    layout = Layout(shape.nodes, shape.cpus_per_task, math.ceil(ladder.wait_s))
    line = without_nodes(request.srun, avoid)
    argv = srun_argv(line, layout, kind=kind, command=agent, plugin=plugin)
    return Prepared(plan, tuple(argv), srun_environment(environment, kind, run=str(run), attempt=attempt))


def keep_plan(run: RunDirectory, attempt: int, plan: Plan, *, forget_stop: bool) -> None:
    """Into the attempt's folder, which is made. Raises ManifestUnavailable."""
    try:
        make_directory_durably(run.attempt(attempt))
        write_plan(run.plan(attempt), plan)
        if forget_stop:  # a person's word to an earlier attempt: starting again by hand, or by Slurm, outranks it
            run.stop_file.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise ManifestUnavailable(f"attempt {attempt} of run {run.path} can't be prepared: {why}") from error


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
