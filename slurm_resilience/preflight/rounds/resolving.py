"""A node's part of the round of names: it looks them up, all at once, each for as long as it may take."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_resilience.preflight.check import Context, Tell

LOOK_UP_S = 10.0
PATIENCE_S = 1.0
"""After that nobody waits for the second name of a node whose first has been found, or the other way round."""


def resolve(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    groups = [[str(name) for name in names] for names in assignment["names"]]
    tell(f"resolving {', '.join(names[0] for names in groups[:8])}")
    # Gloo takes the address of the host's own name, unless it is told an interface.
    chosen = context.interface is not None or "GLOO_SOCKET_IFNAME" in context.environment
    return {"names": look_up(groups, timeout_s=LOOK_UP_S), "own": own_addresses(), "interface_chosen": chosen}


def look_up(groups: Sequence[Sequence[str]], *, timeout_s: float) -> dict[str, dict[str, Any]]:
    """By name: `addresses` and `took_s`, or `error`; `pending` where it was not waited for to the end.

    A group is the names of one node. getaddrinfo knows no time limit: what hangs is left behind.
    """
    names = list(dict.fromkeys(name for group in groups for name in group))
    found: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
    for name in names:
        threading.Thread(target=lambda name=name: found.put((name, _ask(name))), daemon=True).start()
    begun = time.monotonic()
    answers: dict[str, dict[str, Any]] = {}

    def all_found() -> bool:
        return all(any(answers.get(name, {}).get("addresses") for name in group) for group in groups)

    while len(answers) < len(names):
        end = begun + (PATIENCE_S if all_found() else timeout_s)
        try:
            name, answer = found.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        answers[name] = answer
    took_s = round(time.monotonic() - begun, 3)
    none = {"addresses": [], "took_s": took_s, "error": f"no answer within {took_s:.0f} s", "pending": all_found()}
    return {name: answers.get(name, none) for name in names}


def own_addresses() -> list[str]:
    """All of this node's, but for the loopback's: names may lead to another interface than the one that was named."""
    import psutil

    families = (socket.AF_INET, socket.AF_INET6)
    every = [a for addresses in psutil.net_if_addrs().values() for a in addresses if a.family in families]
    plain = [address.address.partition("%")[0] for address in every]
    return sorted({address for address in plain if not address.startswith("127.") and address != "::1"})


def _ask(name: str) -> dict[str, Any]:
    begun = time.monotonic()
    addresses: list[str] = []
    error = None
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in answers))
    except OSError as problem:
        error = problem.strerror or str(problem)
    except UnicodeError:
        error = "this is no host name"
    answer: dict[str, Any] = {"addresses": addresses, "took_s": round(time.monotonic() - begun, 4)}
    return answer if error is None else answer | {"error": error}
