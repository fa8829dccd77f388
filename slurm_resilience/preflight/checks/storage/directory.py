"""Check `storage`: what a run does in its directory works there, one thing after the other.

Each is told before it is done: of a mount that hangs it is known how far it let us come.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_resilience.durable_file import sync_directory
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.storage.complaint import complaint
from slurm_resilience.preflight.checks.storage.file_system import file_system_of
from slurm_resilience.preflight.checks.storage.place import nearest, own_folder
from slurm_resilience.preflight.checks.summary import listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn

_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_DOUBLE = "a lock that only one can have"
_CONTENT = b"slurm-resilience preflight\n" * 64


def storage(context: Context, tell: Tell) -> Iterable[Finding]:
    if context.run_dir is None:
        return [skipped("no run directory is named (--run-dir)")]
    try:
        place = nearest(context.run_dir, tell)
        real = place.resolve()
    except OSError as error:
        return [complaint(error, f"{context.run_dir} can't be reached")]
    if not place.is_dir():
        text = f"{place} is no folder"
        return [fail(Problem.USER, text, "name a folder, or one that can be made")]
    tell(f"reading /proc/self/mountinfo for {place}")
    mount = file_system_of(real, context.root)
    kind = None if mount is None else mount.kind
    missing: list[str] = []
    try:
        with own_folder(context, place, tell) as folder:
            problem = _try_all(folder, tell, missing)
    except OSError as error:
        return [_unwritable(error, context.run_dir, place)]
    problems = [] if problem is None else [problem]
    if _DOUBLE in missing or ("flock" in missing and "hard links" in missing):
        text = f"{place} ({kind or 'unknown'}) has no lock that keeps others out: two jobs could take one run at a time"
        problems.append(warn(Problem.USER, text, "keep the run on another file system, or mount this one with locks"))
    without = f", without {listed(missing)}" if missing else ""
    made = "" if place == context.run_dir.absolute() else f"; {context.run_dir} will be made"
    facts = {"kind": kind, "source": mount.source if mount else None, "missing": missing or None}
    return summed_up(problems, f"{place} ({kind or 'unknown'}) takes what a run does{without}{made}", facts)


def _unwritable(error: OSError, run_dir: Path, place: Path) -> Finding:
    if place == run_dir.absolute():
        return complaint(error, f"{run_dir} can't be written to")
    return complaint(error, f"{run_dir} can't be made, for {place} can't be written to")


def _try_all(folder: Path, tell: Tell, missing: list[str]) -> Finding | None:
    """The first thing that doesn't work; what is only a pity goes to `missing`."""
    one, other = folder / "one", folder / "other"
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("writing to and syncing", lambda: _write(one)),
        ("reading", lambda: _read_back(one)),
        ("renaming a file over another in", lambda: _rename(one, other)),
        ("syncing the names in", lambda: sync_directory(folder)),
        ("making a hard link in", lambda: _link(other, folder / "link", missing)),
        ("locking a file in", lambda: _lock(other, missing)),
        ("removing a file from", other.unlink),
    )
    for what, step in steps:
        tell(f"{what} {folder}")
        try:
            step()
        except OSError as error:
            return complaint(error, f"{what} {folder.parent} fails")
        except _Wrong as wrong:
            text = f"{what} {folder.parent} gives something else than was done: {wrong}"
            return fail(Problem.NODE, text, "leave the node out (--exclude) and tell the admins")
    return None


class _Wrong(Exception):
    pass


def _write(path: Path) -> None:
    with path.open("xb") as file:
        file.write(_CONTENT)
        file.flush()
        os.fsync(file.fileno())


def _read_back(path: Path) -> None:
    found = path.read_bytes()
    if found != _CONTENT:
        raise _Wrong(f"{len(_CONTENT)} bytes were written, {len(found)} others read")


def _rename(new: Path, old: Path) -> None:
    old.write_bytes(b"old")
    new.replace(old)
    if new.exists() or old.read_bytes() != _CONTENT:
        raise _Wrong("the old file is still there")


def _link(path: Path, link: Path, missing: list[str]) -> None:
    try:
        os.link(path, link)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        missing.append("hard links")
        return
    if path.stat().st_nlink != 2:
        missing.append("hard links")  # they are there, and not counted: a lock by link can't tell that it was taken
    link.unlink()


def _lock(path: Path, missing: list[str]) -> None:
    """flock holds between two openings, in one process, too: the second must be refused."""
    with path.open("rb") as one, path.open("rb") as two:
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            missing.append("flock")
            return
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            missing.append(_DOUBLE)
