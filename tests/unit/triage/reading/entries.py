"""A small table for tests of the reader, whose lines don't change when the real one does."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Role


def entry(name: str, regex: str, *hints: str, role: Role = Role.ROOT, cause: Cause = Cause.CRASHED) -> KnownFailure:
    return KnownFailure(name, name, regex, hints, cause, role, "made up")


TIME_LIMIT = entry(
    "slurm.time-limit", r"\*\*\* (?:JOB|STEP) \S+ ON (?P<node>\S+) CANCELLED AT \S+ DUE TO TIME LIMIT", "DUE TO",
    cause=Cause.TIME_LIMIT,
)  # fmt: skip
TASK = entry(
    "slurm.task", r"srun: error: (?P<node>\S+): task (?P<task>\d+): Killed", "srun: error: ", role=Role.CASCADE
)
XID = entry("kernel.xid", r"NVRM: Xid \(PCI:(?P<device>[^)]*)\): (?P<code>\d+)", "NVRM: Xid")
FULL = entry(
    "storage.full", r"\[Errno 28\]|No space left on device", "[Errno 28]", "No space left", cause=Cause.STORAGE
)
PEER = entry("gloo.peer", r"Connection closed by peer \[(?P<peer>[^\]]*)\]", "Connection closed by", role=Role.CASCADE)
TABLE_OF_TORCHRUN = entry("elastic.table", r"ChildFailedError", "ChildFailedError", role=Role.CASCADE)
KILLED = entry("elastic.killed", r"exitcode *: -9\b", "exitcode  : ", role=Role.CASCADE)
WATCHDOG = entry(
    "nccl.watchdog", r"Watchdog caught collective .*SeqNum=(?P<seq>\d+)", "Watchdog caught", role=Role.WAIT
)
ENTRIES = (TIME_LIMIT, TASK, XID, FULL, PEER, TABLE_OF_TORCHRUN, KILLED, WATCHDOG)
