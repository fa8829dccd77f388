"""Exit notes: one line of JSON for every task that ended, written where it ended by a plugin of slurmstepd.

`{"job": "7", "restart": 0, "step": 0, "node": "n1", "rank": 3, "pid": 4711, "status": 9, "time": 1764500000.5}`
in `RUN/exit-notes/JOB-RESTART/*.jsonl`, one file a node. `status` is what wait(2) gives: srun keeps only the highest of
all of them. `restart` is SLURM_RESTART_COUNT: 0 where that is unset. Keys that we don't know are left alone.

The file of a node has the tasks of all steps of that life of the job; which attempt's they are, their times tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEYS = ("job", "restart", "step", "node", "rank", "pid", "status", "time")
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}


@dataclass(frozen=True, slots=True)
class ExitNote:
    job: str
    restart: int
    step: int
    node: str
    rank: int
    """Of the task within its step."""
    pid: int
    status: int
    """As wait(2) gives it."""
    time_s: float

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it; None: it left by itself."""
        number = self.status & 0x7F
        return signal_name(number) if number else None

    @property
    def last_signal(self) -> str | None:
        """`signal`, or that of the command which a task has waited for and whose end it handed on: 139 is SIGSEGV."""
        if self.code is None:
            return self.signal
        return _SIGNALS.get(self.code - 128)

    @property
    def code(self) -> int | None:
        """What it left with; None: a signal ended it."""
        return None if self.status & 0x7F else (self.status >> 8) & 0xFF


def signal_name(number: int) -> str:
    return _SIGNALS.get(number, f"signal {number}")


def parse(text: str) -> tuple[tuple[ExitNote, ...], int]:
    """The notes in `text`, and how many lines are none: torn, of another make, or not to be believed."""
    notes: list[ExitNote] = []
    unreadable = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        note = _note(line)
        if note is None:
            unreadable += 1
        else:
            notes.append(note)
    return tuple(notes), unreadable


def _note(line: str) -> ExitNote | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not all(key in value for key in _KEYS):
        return None
    job, node = value["job"], value["node"]
    if not isinstance(job, (str, int)) or isinstance(job, bool) or not isinstance(node, str):
        return None
    counts = [value[key] for key in ("restart", "step", "rank", "pid", "status")]
    if not all(_is_count(count) for count in counts) or not _is_time(value["time"]):
        return None
    restart, step, rank, pid, status = counts
    return ExitNote(str(job), restart, step, node, rank, pid, status, float(value["time"]))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**40


def of_life(notes: Iterable[ExitNote], restart: int) -> tuple[ExitNote, ...]:
    """Those of the job's life with this restart count, the oldest first, each once: a ghost of the one before writes
    too, and nodes that share a spool bring each other's."""
    ours = dict.fromkeys(note for note in notes if note.restart == restart)
    return tuple(sorted(ours, key=lambda note: note.time_s))


def read_exit_notes(folder: Path, restart: int, say: Callable[[str], None]) -> tuple[ExitNote, ...]:
    """Of the life with this restart count, the oldest first; `say` hears of what can't be read. Never raises for it."""
    notes: list[ExitNote] = []
    try:
        paths = sorted(folder.glob("*.jsonl"))
    except OSError as error:
        say(f"the exit notes in {folder} can't be listed ({error.strerror or error}): triage does without them")
        return ()
    for path in paths:
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            say(f"the exit notes {path} can't be read ({error.strerror or error}): triage does without them")
            continue
        found, unreadable = parse(text)
        notes += found
        if unreadable:
            say(f"{unreadable} of the lines of {path} are no exit notes: they were skipped")
    return of_life(notes, restart)
