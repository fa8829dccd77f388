"""What the node agents of one attempt have to do: written once by the supervisor, read by every agent."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.requeue.limits import Limits

FORMAT = 1


class CommandKind(enum.Enum):
    """TORCHRUN: one agent a node starts torchrun, which starts the ranks. TASK: one agent a Slurm task, as given."""

    TORCHRUN = "torchrun"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of one attempt meet: nobody of another attempt can join."""

    host: str
    port: int
    id: str


@dataclass(frozen=True, slots=True)
class StopTimes:
    """How long what may take, in seconds; see signals/ladder.py for where the numbers come from."""

    after_termination_s: float
    """From the first SIGTERM until the agent kills the tree itself."""
    after_warning_s: float
    """From SIGUSR1/2 or an operator's word (no deadline known) until the agent kills the tree itself."""
    leave_s: float
    """From 'every rank stopped' until the agent kills what is left of the tree."""
    peer_failed_s: float
    """From 'a peer is gone' until the agent kills the tree."""


@dataclass(frozen=True, slots=True)
class Plan:
    run: str
    """The run directory, absolute."""
    run_id: str
    attempt: int
    kind: CommandKind
    argv: tuple[str, ...]
    """TASK: the command. TORCHRUN: torchrun's own options (ours not among them), then script or -m module, and args."""
    python: str
    """The interpreter that runs torchrun."""
    nodes: int
    nproc_per_node: int | str
    """Of TORCHRUN, as torchrun takes it: a number, or `gpu`, `cpu`, `auto`, which only the node can count."""
    rendezvous: Rendezvous | None
    local_addr: str | None
    interface: str | None
    """For GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME; None leaves the environment as it is."""
    forward_signal: str | None
    """USR1, say: sent once to rank processes that don't use our library."""
    end_s: float | None
    """When the job's time is over, seconds since the epoch; None: no limit known."""
    stop_before_end_s: float
    """How long before `end_s` the agents ask the ranks to stop by themselves."""
    times: StopTimes
    runtime_parent: str
    """The folder (in memory) under which each node makes its runtime folder."""
    supervisor_host: str
    supervisor_boot_id: str
    supervisor_pid: int
    supervisor_started_ticks: int
    """Process start time in clock ticks after boot (/proc/PID/stat, field 22): tells a recycled pid."""
    can_requeue: bool
    """Whether a node agent whose supervisor provably died may finish its work by `deputy`."""
    supervisor_pid_namespace: int | None = None
    tasks: int = 1
    """How many node agents there are: one a node, or one a task of a plain command."""
    limits: Limits = field(default_factory=Limits)
    """For the deputy, and for `status`."""
    chain: bool = False
    """Whether the run goes on by a successor's job, and not by requeueing this one."""
    chain_dependency: str = "afterany"
    """What a successor waits for."""
    start_s: float | None = None
    """When the job began, seconds since the epoch by the controller's clock: tells a node whose clock lags."""
    over_time_limit_s: float = 0.0
    """How much later than `end_s` Slurm ends the job (OverTimeLimit)."""
    shutdown_timeout_s: float | None = None
    """For TORCH_ELASTIC_SHUTDOWN_TIMEOUT; None leaves it as it is."""
    beat_s: float | None = None
    """How often an agent shows that it lives; None: never."""


def write_plan(path: Path, plan: Plan) -> None:
    value = asdict(plan)
    value["kind"] = plan.kind.value
    value["format"] = FORMAT
    replace_durably(path, json.dumps(value, indent=1).encode())


def read_plan(path: Path) -> Plan:
    """Raises ConfigurationError where the file is missing or not of this version."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the attempt's plan {path} can't be read: {error}") from error
    if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
        raise ConfigurationError(f"{path} was written by another version of slurm-resilience")
    try:
        value["kind"] = CommandKind(value["kind"])
        value["argv"] = tuple(value["argv"])
        value["times"] = StopTimes(**value["times"])
        value["limits"] = Limits(**value["limits"])
        if value["rendezvous"] is not None:
            value["rendezvous"] = Rendezvous(**value["rendezvous"])
        return Plan(**value)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path} was written by another version of slurm-resilience: {error}") from error
