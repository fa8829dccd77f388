"""What the job may use of this node: by its cgroup, either version, and by what Slurm told it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.checks.reading import number_in, text_of

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes a number near 2**63 where there is none."""


def memory_limit(root: Path) -> int | None:
    """The narrowest limit above this process. None: none."""
    limits = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = number_in(folder / name)
            if limit is not None and limit < _NO_LIMIT_BYTES:
                limits.append(limit)
    return min(limits, default=None)


def memory_in_use(root: Path) -> int:
    """By this job, as far as its cgroup tells."""
    for folder in _folders(root, "memory"):
        for name in ("memory.current", "memory.usage_in_bytes"):
            used = number_in(folder / name)
            limited = number_in(folder / "memory.max") or number_in(folder / "memory.limit_in_bytes")
            if used is not None and limited is not None and limited < _NO_LIMIT_BYTES:
                return used
    return 0


def promised_memory(environment: Mapping[str, str]) -> int | None:
    """What Slurm has given the job here, in bytes; its variables count MiB. 0 is all of the node: no number."""
    per_node = first_number(environment, "SLURM_MEM_PER_NODE")
    if per_node:
        return per_node << 20
    per_cpu = first_number(environment, "SLURM_MEM_PER_CPU")
    cpus = first_number(environment, "SLURM_CPUS_ON_NODE")
    return (per_cpu << 20) * cpus if per_cpu and cpus else None


def cpu_quota(root: Path) -> float | None:
    """How many processors' time the cgroup allows. None: no quota."""
    quotas = []
    for folder in _folders(root, "cpu"):
        words = (text_of(folder / "cpu.max") or "").split()
        if len(words) == 2 and words[0].isdecimal() and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
        quota, period = number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> list[Path]:
    """The cgroup of this process and all above it, the innermost first."""
    mounted = root / "sys" / "fs" / "cgroup"
    folders = []
    for line in (text_of(root / "proc" / "self" / "cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers:
            if controller not in controllers.split(","):
                continue
            tops = [mounted / controller, mounted / controllers]
        elif number == "0":
            tops = [mounted, mounted / "unified"]
        else:
            continue
        for top in tops:
            inner = PurePosixPath(path.lstrip("/"))
            folders += [top / inner, *(top / above for above in inner.parents)]
    return list(dict.fromkeys(folders))
