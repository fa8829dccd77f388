"""Checks `memory` and `swap`: the job finds the memory that it was promised, and nobody is short of it now."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.node.job_limits import memory_in_use, memory_limit, promised_memory
from slurm_resilience.preflight.checks.reading import fields_of, text_of
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, ok, skipped, warn
from slurm_resilience.size import size_text

_TOLERATED = 0.9  # ours: the kernel keeps some, and caches that it has to write first
_SHORT, _VERY_SHORT = 0.10, 0.03  # ours, of all memory
_SWAPPING_BYTES_S = 1 << 20  # ours
_WATCHED_S = 1.0
_LEAVE_OUT = "see who holds it (`ps -e --sort=-rss` on that node); leave the node out (--exclude) and tell the admins"


@dataclass(frozen=True, slots=True)
class Memory:
    total_bytes: int
    available_bytes: int
    promised_bytes: int | None
    """What the job may use: the narrower of what Slurm said and what its cgroup allows."""
    job_uses_bytes: int = 0


def memory(context: Context, tell: Tell) -> Iterable[Finding]:
    tell("reading /proc/meminfo")
    fields = fields_of(text_of(context.root / "proc" / "meminfo"))
    total, available = _kib(fields.get("MemTotal")), _kib(fields.get("MemAvailable"))
    if total is None or available is None:
        return [skipped("/proc/meminfo can't be read")]
    limits = (promised_memory(context.environment), memory_limit(context.root))
    found = Memory(
        total,
        available,
        min((each for each in limits if each), default=None),
        memory_in_use(context.root),
    )
    problems = [*judge(found), *_of_snapshot(found, context)]
    promised = f", {size_text(found.promised_bytes)} for this job" if found.promised_bytes else ""
    fine = f"{size_text(available)} of {size_text(total)} available{promised}"
    facts = {"total_bytes": total, "available_bytes": available, "promised_bytes": found.promised_bytes}
    return summed_up(problems, fine, facts)


def judge(found: Memory) -> list[Finding]:
    share = found.available_bytes / max(1, found.total_bytes)
    left = f"only {size_text(found.available_bytes)} of {size_text(found.total_bytes)} are available"
    if found.promised_bytes is not None:
        # On a node that jobs share, others may have all the rest, rightly.
        wanted = _TOLERATED * min(found.promised_bytes, found.total_bytes)
        if found.available_bytes + found.job_uses_bytes >= wanted:
            return []
        left += f", and the job was given {size_text(found.promised_bytes)}"
    elif share >= _SHORT:
        return []
    say = fail if share < _VERY_SHORT else warn
    return [say(Problem.NODE, left, _LEAVE_OUT)]


def _of_snapshot(found: Memory, context: Context) -> list[Finding]:
    """A save's snapshot lies in memory for a while: this node's share of a checkpoint, beside the training itself."""
    nodes = first_number(context.environment, "SLURM_NNODES") or 1
    if context.checkpoint_bytes is None:
        return []
    share = context.checkpoint_bytes // nodes
    room = min(found.available_bytes, found.promised_bytes or found.available_bytes)
    if share <= room:
        return []
    text = f"the snapshot of a checkpoint takes {size_text(share)} here, and {size_text(room)} of memory are there"
    return [
        warn(Problem.USER, text, "ask for more memory (--mem) or more nodes: saves will write directly, and be slower")
    ]


def swap(
    context: Context,
    tell: Tell,
    sleep: Callable[[float], None] = time.sleep,
    page_bytes: int = resource.getpagesize(),  # 64 KiB on many an ARM
) -> Iterable[Finding]:
    """Swap that is used does no harm; swapping now does."""
    path = context.root / "proc" / "vmstat"
    before = _swapped_pages(text_of(path))
    if before is None:
        return [skipped("/proc/vmstat can't be read")]
    tell(f"watching /proc/vmstat for {_WATCHED_S:g} s")
    sleep(_WATCHED_S)
    after = _swapped_pages(text_of(path)) or before
    bytes_s = (after - before) * page_bytes / _WATCHED_S
    fields = fields_of(text_of(context.root / "proc" / "meminfo"))
    total, free = _kib(fields.get("SwapTotal")) or 0, _kib(fields.get("SwapFree")) or 0
    facts = {"swapped_bytes_per_s": bytes_s, "used_bytes": total - free}
    if bytes_s >= _SWAPPING_BYTES_S:
        swapping = warn(Problem.NODE, f"the node is swapping now, {size_text(bytes_s)} a second", _LEAVE_OUT)
        return summed_up([swapping], "", facts)
    used = f"{size_text(total - free)} of swap are in use, and lie still" if total > free else "no swap is in use"
    return [ok(used, **facts)]


def _swapped_pages(text: str | None) -> int | None:
    counters = dict(line.split(None, 1) for line in (text or "").splitlines() if " " in line)
    if "pswpin" not in counters or "pswpout" not in counters:
        return None
    return int(counters["pswpin"]) + int(counters["pswpout"])


def _kib(text: str | None) -> int | None:
    words = (text or "").split()
    return int(words[0]) << 10 if words and words[0].isdecimal() else None
