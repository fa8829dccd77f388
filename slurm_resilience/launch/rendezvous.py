"""Where the ranks of an attempt meet: settled by the first node's agent, read by the others from the attempt's folder.

The supervisor can't know it beforehand: the step may run on fewer nodes than the job has, and only the first of them
can say which port is free there. The port comes from job, step and restart count, so that two attempts never try the
same one first; it lies outside the range that the kernel hands to clients, and has been bound once. The id names the
attempt, so that a rank left over from another one can't join.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import Rendezvous

LOWEST, HIGHEST = 15000, 32000
"""Below Linux's default range for clients (32768 to 60999), above what daemons usually take."""
TRIES = 64


def candidate_ports(key: str, ephemeral: tuple[int, int]) -> Iterator[int]:
    """Ports to try for `key`, always the same ones in the same order; none that the kernel gives to clients."""
    outside = [port for port in range(LOWEST, HIGHEST) if not ephemeral[0] <= port <= ephemeral[1]]
    for number in range(TRIES):
        digest = hashlib.blake2b(f"{key}/{number}".encode(), digest_size=8).digest()
        if outside:
            yield outside[int.from_bytes(digest, "big") % len(outside)]


def ephemeral_ports() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32768, 60999


def can_be_bound(port: int) -> bool:
    """Whether this node would let a server listen on `port` of all its addresses now."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(1)
    except OSError:
        return False
    return True


def is_here(host: str) -> bool:
    """Whether `host` resolves to an address of this node, so that the other nodes would reach us by it."""
    try:
        answers = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in answers:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


def own_name(preferred: tuple[str | None, ...]) -> str:
    """The first of `preferred` that resolves to this node; its own host name otherwise, and at last its own address."""
    for name in (*preferred, socket.gethostname(), socket.getfqdn()):
        if name and is_here(name):
            return name
    return "127.0.0.1"


def settle(path: Path, *, key: str, identity: str, preferred: tuple[str | None, ...]) -> Rendezvous:
    """On the first node: choose, and write it to `path` for the others. Raises ConfigurationError: no port is free."""
    for port in candidate_ports(key, ephemeral_ports()):
        if can_be_bound(port):
            chosen = Rendezvous(own_name(preferred), port, identity)
            value = {"host": chosen.host, "port": chosen.port, "id": chosen.id}
            replace_durably(path, json.dumps(value).encode())
            return chosen
    raise ConfigurationError(f"none of {TRIES} ports between {LOWEST} and {HIGHEST} is free on {socket.gethostname()}")


def await_settled(
    path: Path, *, identity: str, timeout_s: float, clock: Clock, give_up: Callable[[], bool] = lambda: False
) -> Rendezvous | None:
    """On the other nodes: what the first one has written. None: `give_up` said so, or nothing came in time."""
    deadline_s = clock.monotonic_s() + timeout_s
    while not give_up():
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            value = None
        if value is not None and value.get("id") == identity:
            return Rendezvous(str(value["host"]), int(value["port"]), str(value["id"]))
        if clock.monotonic_s() >= deadline_s:
            return None
        clock.sleep(0.1)
    return None
