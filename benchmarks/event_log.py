"""What a program under measurement tells of itself: a file of JSON lines with the wall's time, one writer a file."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    what: str
    time_s: float
    """Since the epoch."""
    values: dict[str, Any]


class EventLog:
    """Appends; nothing is kept in memory, so that a process that is killed has told everything up to then."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, what: str, **values: Any) -> None:
        line = json.dumps({"what": what, "time_s": time.time(), **values})
        os.write(self._descriptor, line.encode() + b"\n")


def read_events(path: Path) -> list[Event]:
    """Empty where the program has said nothing yet. A last line that is still being written is left for later."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    whole, _, _ = text.rpartition("\n")
    events = []
    for line in whole.splitlines():
        values = json.loads(line)
        events.append(Event(str(values.pop("what")), float(values.pop("time_s")), values))
    return events
