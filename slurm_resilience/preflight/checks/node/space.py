"""Checks `shared-memory` and `temporary`: the two folders that every training writes to, mostly without knowing it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_resilience.checkpoint.space.room import Room, room
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.storage.complaint import complaint
from slurm_resilience.preflight.checks.storage.file_system import mounts
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn
from slurm_resilience.size import size_text

_LEAST_BYTES = 64 << 20
"""What containers get for /dev/shm when nobody asks: DataLoader workers die of it by SIGBUS."""
_FULL = 0.95  # imbue
_LEAST_INODES = 1000  # ours


def shared_memory(context: Context, tell: Tell, ask: Callable[[Path], Room] = room) -> Iterable[Finding]:
    folder = context.root / "dev" / "shm"
    if not folder.is_dir():
        return [skipped(f"there is no {folder}")]
    tell(f"asking for the space in {folder}")
    free_bytes, total_bytes = ask(folder).free_bytes, _total(folder)
    own_bytes = _own_bytes(folder, context.root)
    facts = {"free_bytes": free_bytes, "total_bytes": total_bytes, "own_bytes": own_bytes}
    problems = judge_shared_memory(free_bytes, total_bytes, own_bytes)
    return summed_up(problems, f"{size_text(free_bytes)} free in {folder}", facts)


def judge_shared_memory(free_bytes: int, total_bytes: int, own_bytes: int) -> list[Finding]:
    free = f"{size_text(free_bytes)} of {size_text(total_bytes)} are free"
    text = f"{free} in /dev/shm, and DataLoader workers die without it"
    if total_bytes <= _LEAST_BYTES:
        say = fail if free_bytes < _LEAST_BYTES else warn
        return [say(Problem.USER, text, "start the container with more: --shm-size=16g or --ipc=host")]
    if free_bytes >= _LEAST_BYTES:
        return []
    if own_bytes > total_bytes // 2:
        return [
            fail(
                Problem.USER,
                f"{text}: files of yours hold {size_text(own_bytes)}",
                "remove what earlier runs left there",
            )
        ]
    return [fail(Problem.NODE, text, "leave the node out (--exclude) and tell the admins: others have filled it")]


def temporary(context: Context, tell: Tell, ask: Callable[[Path], Room] = room) -> Iterable[Finding]:
    named = context.environment.get("TMPDIR")
    folder = Path(named) if named else context.root / "tmp"
    who = f"TMPDIR={folder}" if named else str(folder)
    tell(f"looking at {folder}")
    if not folder.is_dir():
        if not named:
            return [fail(Problem.NODE, f"there is no {folder}", "leave the node out (--exclude) and tell the admins")]
        text = f"{who} names no folder on this node"
        return [warn(Problem.USER, text, "make it on each node before the training (srun mkdir -p), or unset TMPDIR")]
    tell(f"writing a file in {folder}")
    try:
        _write(folder / f".preflight-{context.node}-{os.getpid()}")
    except OSError as error:
        return [complaint(error, f"{who} can't be written to")]
    tell(f"asking for the space in {folder}")
    found, total_bytes = ask(folder), _total(folder)
    facts = {"free_bytes": found.bytes, "total_bytes": total_bytes, "free_inodes": found.free_inodes}
    return summed_up(judge_temporary(who, found, total_bytes), f"{size_text(found.bytes)} free in {folder}", facts)


def judge_temporary(who: str, found: Room, total_bytes: int) -> list[Finding]:
    remedy = "remove what you don't need there, or name another folder in TMPDIR"
    if found.bytes < _LEAST_BYTES:
        return [fail(Problem.NODE, f"{who} is full: {size_text(found.bytes)} are left", remedy)]
    if found.free_inodes is not None and found.free_inodes < _LEAST_INODES:
        return [fail(Problem.NODE, f"{who} can take only {found.free_inodes} more files", remedy)]
    if total_bytes and found.free_bytes < (1 - _FULL) * total_bytes:
        return [
            warn(
                Problem.NODE,
                f"{who} is nearly full: {size_text(found.free_bytes)} of {size_text(total_bytes)} left",
                remedy,
            )
        ]
    return []


def _write(path: Path) -> None:
    try:
        with path.open("xb") as file:
            file.write(b"can this be written?")
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)


def _total(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_blocks * status.f_frsize


def _own_bytes(folder: Path, root: Path) -> int:
    """What is mounted below is left alone: not ours to count, and it may hang."""
    elsewhere = {str(mount.where) for mount in mounts(root)}
    total, to_see = 0, [str(folder)]
    while to_see:
        with contextlib.suppress(OSError), os.scandir(to_see.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    to_see += [entry.path] if entry.path not in elsewhere else []
                    continue
                with contextlib.suppress(OSError):  # gone meanwhile
                    status = entry.stat(follow_symlinks=False)
                    total += status.st_blocks * 512 if status.st_uid == os.getuid() else 0
    return total
