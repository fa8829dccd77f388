"""The checks of one node, in the order of the table. Each is imported in the process that runs it."""

from __future__ import annotations

from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.result import Outcome

_HERE = "slurm_resilience.preflight.checks"

# A driver takes seconds for each card where nothing keeps it loaded; one that never answers is a fault of its own.
CHECKS: tuple[Check, ...] = (
    Check("gpu", "all GPUs of the job answer, and none asks for help", f"{_HERE}.gpu.health:gpu", 25.0, Outcome.FAIL),
    Check("gpu-processes", "nobody else is on the GPUs of the job", f"{_HERE}.gpu.tenants:gpu_processes", 28.0),
    Check("kernel-log", "what the kernel said about hardware", f"{_HERE}.kernel_log.log:log", 10.0),
    Check("infiniband", "InfiniBand and RoCE ports are active, at one rate", f"{_HERE}.fabric.infiniband:infiniband"),
    Check("bonding", "the links of a bond are up, alike and in one bundle", f"{_HERE}.fabric.bonding:bonding"),
    Check("interfaces", "the interfaces that were named are there and up", f"{_HERE}.fabric.interfaces:interfaces"),
    Check("memory", "as much memory is free as the job was given", f"{_HERE}.node.memory:memory"),
    Check("swap", "the node isn't swapping now", f"{_HERE}.node.memory:swap"),
    Check("load", "nobody else keeps the processors busy, no process is stuck", f"{_HERE}.node.load:load", 10.0),
    Check("leftovers", "processes and files of your earlier jobs", f"{_HERE}.node.left_behind:leftovers", 10.0),
    Check("limits", "ulimit: locked memory, open files, processes", f"{_HERE}.node.limits:limits"),
    Check("shared-memory", "size and free space of /dev/shm", f"{_HERE}.node.space:shared_memory"),
    Check("temporary", "TMPDIR can be written to and has space", f"{_HERE}.node.space:temporary", 5.0, Outcome.FAIL),
    Check("cpus", "processors for the ranks of this node", f"{_HERE}.node.load:cpus"),
    Check("time-sync", "somebody keeps the clock right", f"{_HERE}.node.clock:time_sync", 6.0),
    Check("power", "the power supply, where NUT knows it", f"{_HERE}.node.power:power", 10.0),
    Check("firewall", "firewall and SELinux, as an explanation only", f"{_HERE}.node.firewall:firewall", 10.0),
    Check("versions", "kernel, driver, Python, torch, CUDA, NCCL", f"{_HERE}.software.versions:versions", 35.0),
    Check("environment", "variables that steer NCCL, torch and others", f"{_HERE}.software.environment:environment"),
    Check(
        "storage",
        "writing, renaming, syncing, locking in the run directory",
        f"{_HERE}.storage.directory:storage",
        8.0,
        Outcome.FAIL,
    ),
    Check(
        "storage-space", "room for the checkpoints to come", f"{_HERE}.storage.space:storage_space", 8.0, Outcome.FAIL
    ),
    Check("storage-speed", "how fast the run directory is", f"{_HERE}.storage.speed:storage_speed", 12.0, alone=True),
)
