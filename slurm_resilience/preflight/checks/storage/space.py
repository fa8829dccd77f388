"""Check `storage-space`: the checkpoints to come find room, in bytes, files and quota."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_resilience.checkpoint.space.outlook import Fine, Tight, TooSmall, outlook, saves_ahead
from slurm_resilience.checkpoint.space.room import Room, room
from slurm_resilience.checkpoint.space.survey import folders_of
from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.storage.complaint import complaint
from slurm_resilience.preflight.checks.storage.place import nearest
from slurm_resilience.preflight.checks.summary import counted, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn
from slurm_resilience.size import size_text

_LEAST_BYTES = 1 << 30  # ours, where nobody says how large a checkpoint is
_LEAST_INODES = 1000  # ours
_REMEDY = "remove what you don't need (slurm-resilience checkpoints prune), keep fewer, or move the run"


def storage_space(context: Context, tell: Tell, ask: Callable[[Path], Room] = room) -> Iterable[Finding]:
    if context.run_dir is None:
        return [skipped("no run directory is named (--run-dir)")]
    try:
        place = nearest(context.run_dir, tell)
        tell(f"asking for the space and the quota at {place}")
        found = ask(place)
        status = os.statvfs(place)
        checkpoints = context.run_dir / "checkpoints"
        tell(f"looking at what lies in {checkpoints}")
        live = [each.bytes for each in folders_of(checkpoints)]
    except OSError as error:
        return [complaint(error, f"{context.run_dir} can't be asked for its space")]
    # A save of the run as a whole makes one file for each rank, and a few beside.
    files = (context.ranks_per_node or 1) * (first_number(context.environment, "SLURM_NNODES") or 1) + 4
    problems = judge(
        found, place, live, checkpoint_bytes=context.checkpoint_bytes, checkpoints=context.checkpoints, files=files
    )
    quota = f", {size_text(found.quota_left_bytes)} left of the quota" if found.quota_left_bytes is not None else ""
    fit = "" if context.checkpoint_bytes is None else f": enough for {counted(context.checkpoints, 'checkpoint')}"
    facts = {
        "free_bytes": found.free_bytes,
        "total_bytes": status.f_blocks * status.f_frsize,
        "quota_left_bytes": found.quota_left_bytes,
        "free_inodes": found.free_inodes,
        "checkpoint_bytes": context.checkpoint_bytes,
    }
    return summed_up(problems, f"{size_text(found.free_bytes)} free at {place}{quota}{fit}", facts)


def judge(
    found: Room, place: Path, live_bytes: list[int], *, checkpoint_bytes: int | None, checkpoints: int, files: int
) -> list[Finding]:
    """`live_bytes`: of the checkpoints that are there already, the oldest first."""
    if found.free_inodes is not None and found.free_inodes < files:
        text = f"{place} can take only {found.free_inodes} more files, and a checkpoint has about {files}"
        return [fail(Problem.USER, text, _REMEDY)]
    if checkpoint_bytes is None:
        if found.bytes < _LEAST_BYTES:
            text = f"only {size_text(found.bytes)} are left at {place}, and nobody says how large a checkpoint is"
            return [warn(Problem.USER, text, f"{_REMEDY}; --checkpoint-size tells this check what to look for")]
        if found.free_inodes is not None and found.free_inodes < _LEAST_INODES:
            return [warn(Problem.USER, f"{place} can take only {found.free_inodes} more files", _REMEDY)]
        return []
    # One is written before the oldest of the others goes.
    kept = max(1, checkpoints - 1)
    coming = saves_ahead(live_bytes, next_bytes=checkpoint_bytes, files=files, keep_last=kept, count=checkpoints)
    match outlook(found, coming):
        case Fine():
            return []
        case Tight(why=why):
            return [warn(Problem.USER, f"{place}: {why}", _REMEDY)]
        case TooSmall(why=why):
            return [fail(Problem.USER, f"{place}: {why}", _REMEDY)]
