"""A training without a model: it steps until it is warned."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from benchmarks.event_log import EventLog


def main() -> None:
    log = EventLog(Path(sys.argv[1]))
    warned: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda which, _: warned.append(which))
    log.tell("first step")
    while not warned:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
