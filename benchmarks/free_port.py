"""A port for the ranks of a plain torchrun to meet at."""

from __future__ import annotations

import socket
import time


def free_port() -> int:
    """Below the range from which the kernel hands out ports by itself, so that it stays free until the ranks meet."""
    for port in range(20000 + time.monotonic_ns() % 10000, 32000):
        with socket.socket() as trial:
            try:
                trial.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 20000 and 32000")
