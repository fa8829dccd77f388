"""All dealings with shared storage, in a thread of their own.

A file system that doesn't answer blocks whoever asks it, in the kernel, for minutes. The loop must be able to kill the
tree at the deadline all the same: so it never touches a file of the run directory itself.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slurm_resilience.agent.log import Log
from slurm_resilience.agent.notice import EndMoved, NewerAttempt, Ordered, Seen, StopFileTouched
from slurm_resilience.launch.end_of_time import read_end_of_time
from slurm_resilience.manifest.agent_record import AgentRecord, touch_agent_record, write_agent_record
from slurm_resilience.manifest.attempt import newer_plan
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.stop_request import StopReason

LOOK_S = 1.0
LOOK_FOR_NEWER_S = 5.0
"""A listing is dearer than the age of a file, and a ghost's commits are refused anyway."""


class Clerk:
    """Writes the newest record it was given, and looks for what others have written for us to see.

    That is the supervisor's stop order, the run's stop file, a new end of the job's time, and a newer attempt. Every
    `beat_s` the record is touched, as a sign of life; None: nobody looks for one.
    """

    def __init__(
        self,
        run: RunDirectory,
        attempt: int,
        slot: int,
        log: Log,
        ring: Callable[[], None],
        *,
        beat_s: float | None = None,
    ) -> None:
        self.seen: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self._run = run
        self._attempt = attempt
        self._record_path = run.agent_record(attempt, slot)
        self._order = _Changing(run.stop_order(attempt))
        self._end = _Changing(run.end_of_time(attempt))
        self._log = log
        self._ring = ring
        self._changed = threading.Condition()
        self._next: AgentRecord | None = None
        self._given = 0
        self._written = 0
        self._stop_file_seen = False
        self._newer_seen = False
        self._look_for_newer_s = 0.0
        self._beat_s = beat_s
        self._beaten_s = time.monotonic()
        self._complaints: set[str] = set()

    def start(self) -> None:
        threading.Thread(target=self._work, name="clerk", daemon=True).start()

    def hand(self, record: AgentRecord) -> None:
        """Have it written soon. A record that was not written yet is forgotten: the newest says it all."""
        with self._changed:
            self._next = record
            self._given += 1
            self._changed.notify_all()

    def settle(self, *, seconds: float) -> bool:
        """Wait until the newest record is durable, but not longer than `seconds`. False: it isn't."""
        with self._changed:
            return self._changed.wait_for(lambda: self._written == self._given, timeout=seconds)

    def _work(self) -> None:
        look_s = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None, timeout=max(look_s - time.monotonic(), 0.0))
                record, number = self._next, self._given
                self._next = None
            if record is not None:
                self._write(record)
                with self._changed:
                    self._written = number
                    self._changed.notify_all()
            if time.monotonic() >= look_s:
                self._look()
                look_s = time.monotonic() + LOOK_S

    def _write(self, record: AgentRecord) -> None:
        try:
            write_agent_record(self._record_path, record)
        except OSError as error:  # the training matters more than what is told of it
            self._complain(f"{self._record_path} can't be written: {error.strerror}")

    def _look(self) -> None:
        self._show(self._read(self._order, _ordered))
        self._show(self._read(self._end, _end_moved))
        if not self._stop_file_seen and self._stop_file_is_there():
            self._stop_file_seen = True
            self._show(StopFileTouched())
        if not self._newer_seen and time.monotonic() >= self._look_for_newer_s:
            self._look_for_newer_s = time.monotonic() + LOOK_FOR_NEWER_S
            self._look_for_newer()
        self._beat()

    def _stop_file_is_there(self) -> bool:
        try:
            return self._run.stop_file.exists()
        except OSError as error:  # "stale file handle", "permission denied": that must not be the end of this thread
            self._complain(f"{self._run.stop_file} can't be looked for: {error.strerror}")
            return False

    def _beat(self) -> None:
        if self._beat_s is None or time.monotonic() < self._beaten_s + self._beat_s:
            return
        self._beaten_s = time.monotonic()
        try:
            touch_agent_record(self._record_path)
        except OSError as error:
            self._complain(f"{self._record_path} can't be touched: {error.strerror}")

    def _show(self, event: Seen | None) -> None:
        if event is not None:
            self.seen.put(event)
            self._ring()

    def _read(self, file: _Changing, understand: Callable[[bytes], Seen]) -> Seen | None:
        try:
            data = file.read()
            return None if data is None else understand(data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._complain(f"{file.path} can't be read: {error}")
            return None

    def _look_for_newer(self) -> None:
        try:
            newer = newer_plan(self._run, self._attempt)
        except OSError as error:
            self._complain(f"{self._run.attempts} can't be listed: {error.strerror}")
            return
        if newer is not None:
            self._newer_seen = True
            self._show(NewerAttempt(newer))

    def _complain(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            self._log.say(text)


class _Changing:
    """A file that is replaced from time to time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: tuple[int, int, int] | None = None

    def read(self) -> bytes | None:
        """None: it isn't there, or is the one that was read before."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version == self._version:
            return None
        data = self.path.read_bytes()
        self._version = version  # not before: what couldn't be read is read again
        return data


def _ordered(data: bytes) -> Seen:
    value = json.loads(data)
    seconds = value.get("seconds")
    reason = StopReason[value["reason"]]
    return Ordered(reason, str(value.get("because", "")), None if seconds is None else float(seconds))


def _end_moved(data: bytes) -> Seen:
    return EndMoved(read_end_of_time(data))
