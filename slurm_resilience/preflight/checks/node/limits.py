"""Check `limits`: what the shell calls ulimit, as the job's processes have it."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.fabric.nccl_settings import nccl_setting
from slurm_resilience.preflight.checks.fabric.ports import ports
from slurm_resilience.preflight.checks.gpu.expected import expected
from slurm_resilience.preflight.checks.reading import fields_of, text_of
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, warn
from slurm_resilience.size import size_text

_UNLIMITED = resource.RLIM_INFINITY
_FILES_PER_RANK = 256  # ours: sockets to other ranks, data files, libraries
_LEAST_FILES = 1024  # what Linux starts with
_THREADS_PER_RANK = 64  # ours
_LEAST_PINNED_BYTES = 1 << 30  # ours: 64 KiB and 8 MiB are what systems come with, and both are far too little
_HOW = "`ulimit -l unlimited` before sbatch, which hands limits on; or --propagate=NONE"


@dataclass(frozen=True, slots=True)
class Limits:
    """Soft and hard; None: unlimited."""

    pinned_bytes: tuple[int | None, int | None]
    files: tuple[int | None, int | None]
    processes: tuple[int | None, int | None]
    core_bytes: tuple[int | None, int | None]


def own_limits() -> Limits:
    def limit(which: int) -> tuple[int | None, int | None]:
        soft, hard = resource.getrlimit(which)
        return (None if soft == _UNLIMITED else soft, None if hard == _UNLIMITED else hard)

    return Limits(
        limit(resource.RLIMIT_MEMLOCK),
        limit(resource.RLIMIT_NOFILE),
        limit(resource.RLIMIT_NPROC),
        limit(resource.RLIMIT_CORE),
    )


def limits(context: Context, tell: Tell, ask: Callable[[], Limits] = own_limits) -> Iterable[Finding]:
    tell("asking the kernel for our limits")
    found = ask()
    # Many a card for Ethernet alone has an RDMA device, too: one that nothing is connected to needs no memory.
    rdma = any(port.works for port in ports(context.root)) and not _told_not_to(context)
    fields = fields_of(text_of(context.root / "proc" / "meminfo"))
    words = fields.get("MemTotal", "").split()
    total_bytes = int(words[0]) << 10 if words and words[0].isdecimal() else None
    on_gpus = bool(expected(context))
    problems = judge(found, ranks=context.ranks_per_node or 1, rdma=rdma, on_gpus=on_gpus, total_bytes=total_bytes)
    pinned = "unlimited" if found.pinned_bytes[0] is None else size_text(found.pinned_bytes[0])
    files = "unlimited" if found.files[0] is None else found.files[0]
    fine = f"{files} open files, {pinned} of locked memory" + ("" if rdma else " (there is no InfiniBand to need it)")
    facts = {
        "locked_bytes": found.pinned_bytes[0],
        "open_files": found.files[0],
        "processes": found.processes[0],
        "core_bytes": found.core_bytes[0],
    }
    return summed_up(problems, fine, facts)


def _told_not_to(context: Context) -> bool:
    setting = nccl_setting(context, "NCCL_IB_DISABLE")
    return setting is not None and setting[0] not in ("", "0")


def judge(found: Limits, *, ranks: int, rdma: bool, on_gpus: bool, total_bytes: int | None) -> list[Finding]:
    """`on_gpus`: NCCL will be used; without GPUs the ranks talk over TCP, and only other programs use RDMA."""
    problems = []
    soft, hard = found.pinned_bytes
    if rdma and soft is not None:
        # Whose it is: what the user's own shell handed on can be raised by him, what the node's slurmd has can't.
        whose = Problem.USER if hard is None or hard > soft else Problem.NODE
        remedy = (
            _HOW
            if whose is Problem.USER
            else "leave the node out and tell the admins: LimitMEMLOCK=infinity for slurmd"
        )
        text = f"only {size_text(soft)} of memory may be locked, and InfiniBand locks what it sends"
        if soft < _LEAST_PINNED_BYTES:
            problems.append((fail if on_gpus else warn)(whose, text, remedy))
        elif total_bytes is not None and soft < total_bytes:
            problems.append(warn(whose, text, remedy))
    files, wanted = found.files[0], max(_LEAST_FILES, ranks * _FILES_PER_RANK)
    if files is not None and files < wanted:
        text = f"a process may have {files} files open; {ranks} ranks on a node may need {wanted}"
        problems.append(warn(Problem.USER, text, f"`ulimit -n {wanted}` in the job script"))
    processes = found.processes[0]
    wanted = ranks * _THREADS_PER_RANK
    if processes is not None and processes < wanted:
        text = f"you may have {processes} processes and threads; {ranks} ranks on a node may need {wanted}"
        problems.append(warn(Problem.USER, text, f"`ulimit -u {wanted}` in the job script"))
    return problems
