"""Lines of text that say why something ended, as data. Pure.

The wording changes between releases: each line here has a test with the whole line as it was seen or as its source has
it. A cascade is what others see of somebody's death; it never names the cause. A line that no pattern knows is nobody's
word, unless it is the exception that ended a rank: that one counts.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause


class Role(enum.Enum):
    ROOT = "root"
    WAIT = "wait"  # somebody waited in vain: a root only where nobody says more
    CASCADE = "cascade"
    ADVICE = "advice"  # no news of anything


@dataclass(frozen=True, slots=True)
class Pattern:
    regex: re.Pattern[str]
    cause: Cause
    role: Role
    source: str
    """Who writes it: slurm, kernel, python, torch, elastic, c10d, gloo, nccl, cuda or ours."""


def _pattern(regex: str, cause: Cause, role: Role, source: str) -> Pattern:
    return Pattern(re.compile(regex), cause, role, source)


_OUR_ERRORS = r"\b(?:Checkpoint|Manifest)Unavailable\b"

PATTERNS = (
    # Slurm's own word comes first: it stands in the output of the job that it ended.
    _pattern(r"\*\*\* (?:JOB|STEP) \S+ ON .* DUE TO TIME LIMIT \*\*\*", Cause.TIME_LIMIT, Role.ROOT, "slurm"),
    _pattern(r"\*\*\* (?:JOB|STEP) \S+ ON .* DUE TO PREEMPTION \*\*\*", Cause.PREEMPTED, Role.ROOT, "slurm"),
    _pattern(r"\*\*\* (?:JOB|STEP) \S+ ON .* DUE TO NODE FAILURE", Cause.NODE_FAILURE, Role.ROOT, "slurm"),
    _pattern(r"\*\*\* (?:JOB|STEP) \S+ ON .* DUE TO JOB REQUEUE \*\*\*", Cause.REQUEUED_BY_HAND, Role.ROOT, "slurm"),
    _pattern(r"srun: error: Node failure on ", Cause.NODE_FAILURE, Role.ROOT, "slurm"),
    _pattern(r"Detected \d+ oom[_-]kill event", Cause.OUT_OF_MEMORY, Role.ROOT, "slurm"),
    _pattern(r"srun: error: \S+: tasks? .*: Out Of Memory", Cause.OUT_OF_MEMORY, Role.ROOT, "slurm"),
    _pattern(r"Exceeded job memory limit", Cause.OUT_OF_MEMORY, Role.ROOT, "slurm"),
    _pattern(r"srun: error: \S+: tasks? .*: (?:Segmentation fault|Bus error)", Cause.CRASHED, Role.ROOT, "slurm"),
    _pattern(r"srun: error: \S+: tasks? .*: (?:Killed|Terminated|Exited)", Cause.CRASHED, Role.CASCADE, "slurm"),
    _pattern(r"oom-kill:constraint=|Out of memory: Killed process", Cause.OUT_OF_MEMORY, Role.ROOT, "kernel"),
    _pattern(r"Memory cgroup out of memory: Killed process", Cause.OUT_OF_MEMORY, Role.ROOT, "kernel"),
    # Advice that follows an error, not one.
    _pattern(r"CUDA kernel errors might be asynchronously reported", Cause.CRASHED, Role.ADVICE, "cuda"),
    _pattern(r"For debugging consider passing CUDA_LAUNCH_BLOCKING", Cause.CRASHED, Role.ADVICE, "cuda"),
    _pattern(r"destroy_process_group\(\) was not called before", Cause.CRASHED, Role.ADVICE, "torch"),
    # A death as the others see it.
    _pattern(r"Connection closed by (?:remote )?peer", Cause.CRASHED, Role.CASCADE, "gloo"),
    _pattern(r"Connection reset by peer|Broken pipe", Cause.CRASHED, Role.CASCADE, "gloo"),
    _pattern(r"Application timeout caused pair closure", Cause.CRASHED, Role.CASCADE, "gloo"),
    _pattern(r"Failed to recv, got 0 bytes|recvVector failed|sendBytes failed", Cause.CRASHED, Role.CASCADE, "c10d"),
    _pattern(r"Rendezvous(?:Connection|Closed|Graceful\w*)Error", Cause.CRASHED, Role.CASCADE, "elastic"),
    _pattern(r"ChildFailedError|closing signal SIG|exitcode *: -15", Cause.CRASHED, Role.CASCADE, "elastic"),
    _pattern(r"SignalException|death signal, shutting down", Cause.CRASHED, Role.CASCADE, "elastic"),
    _pattern(r"NCCL communicator was aborted", Cause.CRASHED, Role.CASCADE, "nccl"),
    _pattern(r"ncclRemoteError|remote process exited or there was a network", Cause.CRASHED, Role.CASCADE, "nccl"),
    _pattern(r"taking the entire process down", Cause.CRASHED, Role.CASCADE, "torch"),
    _pattern(r"dump signal (?:due to a collective timeout )?from", Cause.CRASHED, Role.CASCADE, "torch"),
    _pattern(r"unhandled system error|ncclSystemError", Cause.CRASHED, Role.CASCADE, "nccl"),
    _pattern(r"DataLoader worker \(pid.*\) (?:is killed by signal: (?:Killed|Terminated)|exited unexpectedly)",
             Cause.CRASHED, Role.CASCADE, "torch"),
    _pattern(r"(?:^|: )(?:KeyboardInterrupt|SystemExit)\b", Cause.CRASHED, Role.CASCADE, "python"),
    # Somebody waited in vain.
    _pattern(r"Watchdog caught collective operation timeout", Cause.HUNG, Role.WAIT, "nccl"),
    _pattern(r"watchdog got stuck for", Cause.HUNG, Role.WAIT, "nccl"),
    _pattern(r"Timed out waiting \d+ms for (?:recv|send) operation", Cause.HUNG, Role.WAIT, "gloo"),
    _pattern(r"(?:Read|Write|Connect) timeout\b", Cause.HUNG, Role.WAIT, "gloo"),
    _pattern(r"wait timeout after \d+ms, keys:|barrier timeout after \d+ms", Cause.HUNG, Role.WAIT, "c10d"),
    _pattern(r"RendezvousTimeoutError|client socket has timed out after", Cause.HUNG, Role.WAIT, "c10d"),
    _pattern(r"DataLoader timed out after", Cause.HUNG, Role.WAIT, "torch"),
    # Memory.
    _pattern(r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory", Cause.OUT_OF_MEMORY, Role.ROOT, "cuda"),
    _pattern(r"DefaultCPUAllocator: (?:can't|not enough) ", Cause.OUT_OF_MEMORY, Role.ROOT, "torch"),
    _pattern(r"MemoryError\b|\[Errno 12\]|std::bad_alloc", Cause.OUT_OF_MEMORY, Role.ROOT, "python"),
    # File systems. A socket can be no endpoint too: only a file has a name behind it.
    _pattern(_OUR_ERRORS, Cause.STORAGE, Role.ROOT, "ours"),
    _pattern(r"\[Errno (?:5|28|30|116|122)\]", Cause.STORAGE, Role.ROOT, "python"),
    _pattern(r"\[Errno 107\].*: ['\"]", Cause.STORAGE, Role.ROOT, "python"),
    _pattern(r"\[Errno (?:104|107|111|113)\]", Cause.CRASHED, Role.CASCADE, "python"),
    _pattern(r"No space left on device|Disk quota exceeded|Stale (?:NFS )?file handle|Read-only file system",
             Cause.STORAGE, Role.ROOT, "python"),
    # The program's own, where the line alone would not be known for one.
    _pattern(r"collective mismatch in your code|op\.preamble\.length", Cause.CRASHED, Role.ROOT, "gloo"),
    _pattern(r"DataLoader worker \(pid.*\) is killed by signal", Cause.CRASHED, Role.ROOT, "torch"),
    _pattern(r"CUDA error: |Xid \(PCI:", Cause.CRASHED, Role.ROOT, "cuda"),
)  # fmt: skip

_SAVE_REFUSED = re.compile(
    rf"{_OUR_ERRORS}|No space left|quota exceeded|Input/output error|Stale (?:NFS )?file handle|"
    r"Read-only file system|Transport endpoint is not connected",
    re.IGNORECASE,
)


def pattern_of(line: str) -> Pattern | None:
    """The first pattern that knows the line."""
    return next((pattern for pattern in PATTERNS if pattern.regex.search(line)), None)


def names_storage(why: str) -> bool:
    """Whether a save that failed for this reason was refused by a file system: sockets have nothing to do with it."""
    return _SAVE_REFUSED.search(why) is not None
