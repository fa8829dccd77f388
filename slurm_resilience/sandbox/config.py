"""What a sandbox cluster is, and the text of its configuration files. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_resilience.errors import ConfigurationError

Proctrack = Literal["linuxproc", "cgroup"]

LONGEST_UNIX_SOCKET_BYTES = 107
"""sun_path holds 108 bytes, the last of them zero."""

LONGEST_SOCKET_NAME_BYTES = len("/spool/aaan64/aaan64_67043327.4294967291.0")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Settings of a sandbox cluster. The defaults are short, so that a preemption takes seconds and not minutes."""

    nodes: int = 4
    cpus: int = 8
    """A node may claim more than the machine has (config_overrides)."""
    memory_mb: int = 65536
    proctrack: Proctrack = "linuxproc"
    grace_s: int = 15
    """GraceTime of the partition `low`."""
    kill_wait_s: int = 10
    cred_expire_s: int = 5
    """Slurm holds a requeued batch job back for this long and a second; 120 where a site says nothing."""
    slurmd_timeout_s: int = 15
    min_job_age_s: int = 86400
    """How long the controller remembers a job that has ended."""
    sched_interval_s: int = 1
    sched_min_interval_us: int = 100_000
    bf_interval_s: int = 1
    extra: tuple[str, ...] = ()
    """Lines added to slurm.conf; the last line for a setting wins."""
    plugstack: tuple[str, ...] = ()
    """Lines of plugstack.conf: the SPANK plugins that every command and daemon loads."""

    def __post_init__(self) -> None:
        lowest = {
            "nodes": 1,
            "cpus": 1,
            "memory_mb": 1,
            "grace_s": 0,
            "kill_wait_s": 0,
            "cred_expire_s": 5,  # Slurm itself refuses less
            "slurmd_timeout_s": 1,
            "min_job_age_s": 2,
            "sched_interval_s": 1,
            "sched_min_interval_us": 0,
            "bf_interval_s": 1,
        }
        for name, least in lowest.items():
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} must be at least {least}, and is {getattr(self, name)}")
        if self.nodes > 64:
            raise ConfigurationError(f"a sandbox has at most 64 nodes, not {self.nodes}")
        if self.proctrack not in ("linuxproc", "cgroup"):
            raise ConfigurationError(f"proctrack must be linuxproc or cgroup, and is {self.proctrack}")


@dataclass(frozen=True, slots=True)
class Site:
    """What is chosen afresh for each cluster, so that two on one machine never meet."""

    tag: str
    """Begins the node names: cgroup folders are named after the node, and are one tree for the whole machine."""
    hostname: str
    user: str
    slurm_version: tuple[int, int]
    controller_port: int
    node_ports: tuple[int, ...]
    runtime: str
    """A folder for sockets and keys: short, because of the sockets, and everybody may pass, because munged insists."""
    first_job_id: int
    """What is keyed by the job id alone (/dev/shm, freezer folders, ports) must differ between clusters."""
    cgroup_mountpoint: str = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a cluster lies."""

    folder: Path
    runtime: Path

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def cgroup_conf(self) -> Path:
        return self.folder / "cgroup.conf"

    @property
    def plugstack_conf(self) -> Path:
        return self.folder / "plugstack.conf"

    @property
    def munge_socket(self) -> Path:
        return self.runtime / "munge" / "socket"

    @property
    def munge_private(self) -> Path:
        """Key, seed and pid file: munged insists on a folder that nobody else may read or write."""
        return self.runtime / "munge-private"

    @property
    def munge_key(self) -> Path:
        return self.munge_private / "key"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def spool(self) -> Path:
        return self.runtime / "spool"

    @property
    def logs(self) -> Path:
        return self.folder / "log"

    @property
    def pids(self) -> Path:
        return self.folder / "pid"

    def log(self, daemon: str) -> Path:
        return self.logs / f"{daemon}.log"


def node_names(tag: str, nodes: int) -> tuple[str, ...]:
    return tuple(f"{tag}n{number}" for number in range(1, nodes + 1))


def short_enough(runtime: Path) -> bool:
    """False where Slurm's sockets would get a name longer than the kernel takes; slurmd says nothing clear then."""
    return len(str(runtime).encode()) + LONGEST_SOCKET_NAME_BYTES <= LONGEST_UNIX_SOCKET_BYTES


def slurm_conf(spec: ClusterSpec, site: Site, layout: Layout) -> str:
    scheduler = ",".join(
        (
            f"sched_interval={spec.sched_interval_s}",
            f"sched_min_interval={spec.sched_min_interval_us}",
            f"bf_interval={spec.bf_interval_s}",
        )
    )
    lines = [
        "# Written by slurm-resilience sandbox; gone when the cluster is.",
        f"ClusterName=sandbox-{site.tag}",
        f"SlurmctldHost={site.hostname}(127.0.0.1)",
        f"SlurmctldPort={site.controller_port}",
        f"SlurmUser={site.user}",
        f"SlurmdUser={site.user}",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={layout.munge_socket},cred_expire={spec.cred_expire_s}",
        f"StateSaveLocation={layout.state}",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmctldPidFile={layout.state}/slurmctld.pid",
        f"SlurmdPidFile={layout.spool}/%n.pid",
        f"SlurmctldLogFile={layout.log('slurmctld')}",
        f"SlurmdLogFile={layout.logs}/slurmd-%n.log",
        # A message of a daemon is worth more with its milliseconds when a race is looked into.
        "LogTimeFormat=iso8601_ms",
        f"PlugStackConfig={layout.plugstack_conf}",
        f"ProctrackType=proctrack/{spec.proctrack}",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "MpiDefault=none",
        # Several slurmds share a host that has less than they claim.
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        f"SlurmdTimeout={spec.slurmd_timeout_s}",
        "SlurmctldTimeout=30",
        f"KillWait={spec.kill_wait_s}",
        f"MinJobAge={spec.min_job_age_s}",
        f"FirstJobId={site.first_job_id}",
        "JobRequeue=1",
        f"SchedulerParameters={scheduler}",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        *spec.extra,
    ]
    names = node_names(site.tag, spec.nodes)
    for name, port in zip(names, site.node_ports, strict=True):
        lines.append(
            f"NodeName={name} NodeHostname={site.hostname} NodeAddr=127.0.0.1 Port={port}"
            f" CPUs={spec.cpus} RealMemory={spec.memory_mb} State=UNKNOWN"
        )
    everyone = ",".join(names)
    preempted = f"PreemptMode=REQUEUE GraceTime={spec.grace_s}"
    lines += [
        f"PartitionName=low Nodes={everyone} Default=YES MaxTime=INFINITE PriorityTier=1 {preempted}",
        f"PartitionName=high Nodes={everyone} MaxTime=INFINITE PriorityTier=10 PreemptMode=REQUEUE",
    ]
    return "\n".join(lines) + "\n"


def cgroup_conf(spec: ClusterSpec, site: Site) -> str:
    """cgroup.conf; it must lie beside slurm.conf."""
    lines = ["# Written by slurm-resilience sandbox."]
    if spec.proctrack == "cgroup":
        lines += ["CgroupPlugin=cgroup/v1", f"CgroupMountpoint={site.cgroup_mountpoint}"]
    elif site.slurm_version >= (23, 11):
        # Newer slurmds load a cgroup plugin even when nothing is tracked by it, and die where they may not.
        lines.append("CgroupPlugin=disabled")
    return "\n".join(lines) + "\n"
