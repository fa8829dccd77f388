"""Ports nobody listens on, outside the range that the kernel hands to clients."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from slurm_resilience.errors import ConfigurationError

LOWEST_PORT = 10_000
HIGHEST_PORT = 65_535
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LINUX_EPHEMERAL = (32_768, 60_999)


def choices(ephemeral: tuple[int, int]) -> range:
    """The larger of the two ranges beside the ephemeral one. A port in it is never taken by a passing client."""
    below = range(LOWEST_PORT, max(LOWEST_PORT, ephemeral[0]))
    above = range(min(ephemeral[1], HIGHEST_PORT) + 1, HIGHEST_PORT + 1)
    return max(below, above, key=len)


def ephemeral_range() -> tuple[int, int]:
    try:
        low, high = EPHEMERAL.read_text().split()
    except OSError:  # some containers hide it
        return LINUX_EPHEMERAL
    return int(low), int(high)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` ports that can be bound now. Somebody else may take one before we do: the caller tries again then."""
    among = choices(ephemeral_range())
    found: list[int] = []
    for port in random.sample(among, k=min(len(among), 50 * count)):
        if can_be_bound(port):
            found.append(port)
        if len(found) == count:
            return tuple(found)
    raise ConfigurationError(f"there are no {count} free ports between {among.start} and {among.stop - 1}")


def can_be_bound(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As slurmd binds: every address, and past connections in TIME_WAIT don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
