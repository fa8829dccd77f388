"""Checks `load` and `cpus`: the processors are free for the job, and it has as many as it has ranks."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.node.job_limits import cpu_quota
from slurm_resilience.preflight.checks.processes import Process, job_of, processes
from slurm_resilience.preflight.checks.reading import text_of
from slurm_resilience.preflight.checks.summary import counted, listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, skipped, warn

_WATCHED_S = 1.0
_DEEPEST = 20
_LEAVE_OUT = "see who it is (`top` on that node); if nobody should be there, leave the node out and tell the admins"


@dataclass(frozen=True, slots=True)
class Load:
    cpus: int
    last_minute: float
    strangers: tuple[Process, ...]
    """They run now, and aren't this job's."""
    stuck: tuple[Process, ...]
    """They wait for the kernel, and did a second before."""


def load(context: Context, tell: Tell, sleep: Callable[[float], None] = time.sleep) -> Iterable[Finding]:
    averages = (text_of(context.root / "proc" / "loadavg") or "").split()
    if not averages:
        return [skipped("/proc/loadavg can't be read")]
    tell("looking at all processes")
    before = {each.pid for each in processes(context.root) if each.state == "D"}
    sleep(_WATCHED_S)
    now = [each for each in processes(context.root) if not each.of_the_kernel]
    own_job = context.environment.get("SLURM_JOB_ID")
    running = _not_of_preflight([each for each in now if each.state == "R"], now)
    found = Load(
        cpus_of(context.root),
        float(averages[0]),
        tuple(each for each in running if own_job is None or job_of(context.root, each.pid) != own_job),
        tuple(each for each in now if each.state == "D" and each.pid in before),
    )
    fine = f"load {found.last_minute:g} on {counted(found.cpus, 'processor')}"
    facts = {"load": found.last_minute, "cpus": found.cpus, "running": len(running), "stuck": len(found.stuck)}
    return summed_up(judge(found), fine, facts)


def _not_of_preflight(running: Sequence[Process], all_: Sequence[Process]) -> list[Process]:
    """Without Slurm no job number tells the other checks, which run at the same time, from strangers."""
    parents = {each.pid: each.parent for each in all_}
    own = {os.getpid(), os.getppid()}

    def ours(pid: int) -> bool:
        for _ in range(_DEEPEST):
            if pid in own:
                return True
            pid = parents.get(pid, 0)
        return False

    return [each for each in running if not ours(each.pid)]


def judge(found: Load) -> list[Finding]:
    problems = []
    if found.stuck:
        names = listed(f"{each.name} ({each.pid})" for each in found.stuck)
        text = f"processes wait for the kernel and can't be killed: {names}"
        remedy = "a file system or a device may hang: see the checks of storage and kernel-log, or ask the admins"
        problems.append(warn(Problem.NODE, text, remedy))
    # The load of the last minute alone may be that of a job that has just ended; who runs now alone, a moment's.
    if found.last_minute > found.cpus and found.strangers:
        names = listed(
            f"{name} × {number}" for name, number in Counter(each.name for each in found.strangers).most_common()
        )
        text = f"load {found.last_minute:g} on {counted(found.cpus, 'processor')}; of others run now: {names}"
        problems.append(warn(Problem.NODE, text, _LEAVE_OUT))
    return problems


def cpus_of(root: Path) -> int:
    """Those that are switched on. /proc/cpuinfo would say it too, and takes 10 s on large machines (mej/nhc#141)."""
    text = text_of(root / "sys" / "devices" / "system" / "cpu" / "online")
    return len(numbers_in(text)) if text else os.cpu_count() or 1


def numbers_in(text: str) -> list[int]:
    """`0-3,8` is 0 1 2 3 8."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def cpus(context: Context, tell: Tell, affinity: Callable[[], int] | None = None) -> Iterable[Finding]:
    tell("asking the kernel for our processors")
    allowed = affinity() if affinity is not None else len(os.sched_getaffinity(0))
    # The step that looks may be smaller than the one that trains; what Slurm gave the job here counts then.
    given = first_number(context.environment, "SLURM_CPUS_ON_NODE") or 0
    quota = cpu_quota(context.root)
    usable = max(allowed, given)
    all_ = cpus_of(context.root)
    wide = usable if quota is None else min(usable, quota)
    problems = judge_cpus(wide, context.ranks_per_node, first_number(context.environment, "OMP_NUM_THREADS"))
    fine = f"{wide:g} of {counted(all_, 'processor')}"
    return summed_up(problems, fine, {"cpus": all_, "usable": wide, "quota": quota})


def judge_cpus(usable: float, ranks: int | None, threads: int | None) -> Sequence[Finding]:
    if not ranks:
        return []
    if usable < ranks:
        text = f"{counted(ranks, 'rank')} on {usable:g} processors: they will wait for each other"
        return [warn(Problem.USER, text, "ask for more: --cpus-per-task, or --cpus-per-gpu")]
    if threads is not None and threads * ranks > usable:
        text = f"OMP_NUM_THREADS={threads} for each of {counted(ranks, 'rank')}, on {usable:g} processors"
        return [warn(Problem.USER, text, f"OMP_NUM_THREADS={max(1, int(usable // ranks))}, or more --cpus-per-task")]
    return []
