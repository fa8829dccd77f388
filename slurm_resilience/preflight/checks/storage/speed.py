"""Check `storage-speed`: how fast the run directory takes and gives a file. Measured, and held against itself only.

There is no number that is too slow: what a node did before, and what the job's other nodes do, are what it is held
against. Four nodes that measure at one time share what they measure, alike.
"""

from __future__ import annotations

import mmap
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.storage.complaint import complaint
from slurm_resilience.preflight.checks.storage.place import nearest, own_folder
from slurm_resilience.preflight.checks.summary import earlier, summed_up
from slurm_resilience.preflight.result import Finding, Problem, skipped, warn
from slurm_resilience.size import size_text

_FILE_BYTES = 64 << 20
_PIECE_BYTES = 4 << 20
_LONGEST_S = 3.0
"""For each of writing and reading: a slow storage is measured by less."""
_SMALL_BYTES = 4096
_TIMES_SLOWER = 2.0  # dlrover's for stragglers
_LEAST_MEASURES = 3


def storage_speed(context: Context, tell: Tell) -> Iterable[Finding]:
    if context.run_dir is None:
        return [skipped("no run directory is named (--run-dir)")]
    try:
        place = nearest(context.run_dir, tell)
        with own_folder(context, place, tell) as folder:
            measured = _measure(folder, tell)
    except OSError as error:
        return [complaint(error, f"{context.run_dir} can't be measured")]
    text = f"{place}: writes {size_text(measured['write_bytes_per_s'])}/s"
    if "read_bytes_per_s" in measured:
        text += f", reads {size_text(measured['read_bytes_per_s'])}/s"
    before = earlier(context, "storage-speed", "write_bytes_per_s")
    return summed_up(
        judge(measured, before, place), f"{text}, a small sync takes {measured['fsync_s'] * 1e3:.3g} ms", measured
    )


def judge(measured: Mapping[str, Any], before: list[Any], place: Path) -> list[Finding]:
    speeds = [float(each) for each in before if isinstance(each, (int, float))]
    if len(speeds) < _LEAST_MEASURES:
        return []
    usual, now = statistics.median(speeds), measured["write_bytes_per_s"]
    if now * _TIMES_SLOWER >= usual:
        return []
    takes = f"{place} takes {size_text(now)}/s from this node"
    text = f"{takes}; the median of {len(speeds)} earlier measures is {size_text(usual)}/s"
    return [
        warn(Problem.NODE, text, "saves will take longer: if only this node is slow, tell the admins; if all are, wait")
    ]


def _measure(folder: Path, tell: Tell) -> dict[str, Any]:
    tell(f"syncing a small file in {folder}")
    began = time.perf_counter()
    with (folder / "small").open("xb") as file:
        file.write(bytes(_SMALL_BYTES))
        file.flush()
        os.fsync(file.fileno())
    sync_s = time.perf_counter() - began
    large = folder / "large"
    # Random bytes: some file systems store zeros as nothing. On a page boundary, as O_DIRECT wants it.
    with mmap.mmap(-1, _PIECE_BYTES) as piece:
        piece.write(os.urandom(_PIECE_BYTES))
        tell(f"writing {size_text(_FILE_BYTES)} to {large}")
        written, took_s = _write(large, piece)
        result: dict[str, Any] = {"write_bytes_per_s": written / took_s, "written_bytes": written, "fsync_s": sync_s}
        tell(f"reading {large}")
        read, took_s, direct = _read(large, piece, written)
    if read:
        result |= {"read_bytes_per_s": read / took_s, "read_past_cache": direct}
    return result


def _write(path: Path, piece: mmap.mmap) -> tuple[int, float]:
    began = time.perf_counter()
    written = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        written += os.write(descriptor, piece)
        os.fsync(descriptor)
        # The kernel takes writes at its own speed and has us wait at the end: the first piece says for how long.
        goal = written * _LONGEST_S / max(time.perf_counter() - began, 1e-6)
        while written < min(_FILE_BYTES, goal) and time.perf_counter() - began < _LONGEST_S:
            written += os.write(descriptor, memoryview(piece)[: _FILE_BYTES - written])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return written, max(time.perf_counter() - began, 1e-6)


def _read(path: Path, piece: mmap.mmap, size_bytes: int) -> tuple[int, float, bool]:
    """Past the cache where the file system lets us; else as far as the kernel has forgotten it when asked to."""
    direct = True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        direct = False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not direct:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        read = 0
        while read < size_bytes and time.perf_counter() - began < _LONGEST_S:
            try:
                got = os.preadv(descriptor, [piece], read)
            except OSError:
                if not direct:
                    raise
                break  # it took the flag and not what it means
            if not got:
                break
            read += got
        return read, max(time.perf_counter() - began, 1e-6), direct
    finally:
        os.close(descriptor)
