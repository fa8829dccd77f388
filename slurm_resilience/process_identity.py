"""Who a process is, beyond its number: pids are used again, and the same number lives on every host.

Proof matters more than an answer here: GONE is said only where this machine can know it.
"""

from __future__ import annotations

import enum
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO: every process outside containers


class Liveness(enum.Enum):
    ALIVE = "alive"
    GONE = "gone"  # proven: it can never write again
    UNKNOWN = "unknown"  # nobody here can tell: never to be taken for gone


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    boot_id: str
    pid: int
    started_ticks: int
    """Start time in clock ticks after boot: tells a process from a later one with its number."""
    pid_namespace: int | None = None
    """Inode of the namespace in which `pid` counts. A container often has its own. None: not recorded."""

    @classmethod
    def of_this_process(cls) -> Identity:
        pid = os.getpid()
        ticks = started_ticks(pid)
        assert ticks is not None, "/proc doesn't know this very process"
        return cls(socket.gethostname(), boot_id(), pid, ticks, pid_namespace())


def boot_id() -> str:
    """A new one each time the machine starts; the same in all its containers."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def started_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat. None: there is no such process, or it is dead and only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    behind_name = stat[stat.rindex(b")") + 2 :].split()  # a name may hold spaces and brackets
    if behind_name[0] in (b"Z", b"X", b"x"):
        return None
    return int(behind_name[19])


def liveness(identity: Identity) -> Liveness:
    """Whether that process still lives. UNKNOWN for another host, and for a container's process seen from outside.

    A host that came up again since (another boot id) has lost all its processes. A host without a name of its own
    (localhost) proves nothing by it.
    """
    if identity.host != socket.gethostname():
        return Liveness.UNKNOWN
    if identity.boot_id != boot_id():
        return Liveness.UNKNOWN if identity.host.startswith("localhost") else Liveness.GONE
    here = pid_namespace()
    if identity.pid_namespace is not None and identity.pid_namespace != here:
        return Liveness.UNKNOWN
    if started_ticks(identity.pid) == identity.started_ticks:
        return Liveness.ALIVE
    if identity.pid_namespace is None and here != _INITIAL_PID_NAMESPACE:
        return Liveness.UNKNOWN  # it may have been counted outside our container
    return Liveness.GONE
