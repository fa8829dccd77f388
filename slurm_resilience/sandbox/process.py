"""Whose process is this? A pid alone is no answer: the kernel gives it to somebody else one day."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ResilienceError
from slurm_resilience.process_identity import boot_id, started_ticks

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process for ever: the pid, and when it started (clock ticks since boot) in which boot."""

    pid: int
    start_ticks: int
    boot: str

    def alive(self) -> bool:
        """False for a zombie: it runs no more, only its parent has not looked yet."""
        return boot_id() == self.boot and started_ticks(self.pid) == self.start_ticks

    def signal(self, number: signal.Signals) -> None:
        if self.alive():
            # What has become another user's (sudo in a job) is not ours to end, and must not keep us from the others.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def identify(pid: int) -> Process | None:
    """None when there is no such process, or only a zombie."""
    ticks = started_ticks(pid)
    return None if ticks is None else Process(pid, ticks, boot_id())


def save_process(path: Path, process: Process) -> None:
    replace_durably(
        path, json.dumps({"pid": process.pid, "start_ticks": process.start_ticks, "boot": process.boot}).encode()
    )


def load_process(path: Path) -> Process | None:
    """None when none was noted."""
    try:
        noted = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Process(int(noted["pid"]), int(noted["start_ticks"]), str(noted["boot"]))


def environment_of(pid: int) -> dict[str, str]:
    """Empty where we may not look, or where the process is gone."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def command_name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def processes_with(belongs: Callable[[str, dict[str, str]], bool]) -> Iterator[Process]:
    """Every live process, ourselves left out, of which `belongs(command name, environment)` holds."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        process = identify(pid)
        if process is not None and belongs(command_name(pid), environment_of(pid)) and process.alive():
            yield process


def with_descendants(processes: list[Process]) -> list[Process]:
    """These processes and all below them: a job's process may have started one with an empty environment."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = {process.pid: process for process in processes}
    todo = [process.pid for process in processes]
    while todo:
        for pid in children.get(todo.pop(), []):
            if pid not in found and pid != os.getpid() and (process := identify(pid)) is not None:
                found[pid] = process
                todo.append(pid)
    return list(found.values())


def _parent(pid: int) -> int | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])  # the name before it may hold blanks and brackets


def kill_all(find: Callable[[], list[Process]], *, timeout_s: float) -> None:
    """SIGKILL what `find` finds until it finds nothing: a process may have forked while we looked."""
    deadline = time.monotonic() + timeout_s
    while left := find():
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left)
            raise ResilienceError(f"these processes of the sandbox do not die of SIGKILL: {pids}")
        for process in left:
            process.signal(signal.SIGKILL)
        time.sleep(0.02)
