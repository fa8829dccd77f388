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
from slurm_resilience.agent.notice import Ordered, StopFileTouched
from slurm_resilience.manifest.agent_record import AgentRecord, write_agent_record
from slurm_resilience.signals.stop_request import StopReason

LOOK_S = 1.0


class Clerk:
    """Writes the newest record it was given, and looks for the supervisor's stop order and the run's stop file."""

    def __init__(self, record: Path, order: Path, stop_file: Path, log: Log, ring: Callable[[], None]) -> None:
        self.seen: queue.SimpleQueue[Ordered | StopFileTouched] = queue.SimpleQueue()
        self._record_path = record
        self._order_path = order
        self._stop_file = stop_file
        self._log = log
        self._ring = ring
        self._changed = threading.Condition()
        self._next: AgentRecord | None = None
        self._given = 0
        self._written = 0
        self._order_version: tuple[int, int, int] | None = None
        self._stop_file_seen = False
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
        try:
            order = self._read_order()
        except FileNotFoundError:
            order = None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._complain(f"{self._order_path} can't be read: {error}")
            order = None
        if order is not None:
            self.seen.put(order)
            self._ring()
        if not self._stop_file_seen and self._stop_file.exists():
            self._stop_file_seen = True
            self.seen.put(StopFileTouched())
            self._ring()

    def _read_order(self) -> Ordered | None:
        """None: there is no newer one."""
        found = self._order_path.stat()
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version == self._order_version:
            return None
        self._order_version = version
        value = json.loads(self._order_path.read_bytes())
        seconds = value.get("seconds")
        reason = StopReason[value["reason"]]
        return Ordered(reason, str(value.get("because", "")), None if seconds is None else float(seconds))

    def _complain(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            self._log.say(text)
