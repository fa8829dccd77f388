"""A node's card, and what Slurm told it about its step: the first thing that the conductor hears of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from slurm_resilience.preflight.echo import serve
from slurm_resilience.preflight.round import Card
from slurm_resilience.preflight.way import job_of
from slurm_resilience.preflight.wire import card_value
from slurm_resilience.process_identity import boot_id


def introduction(task: int, node: str, interface: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """Starts the echo. What can't be found out is left empty: it is a check that will say so."""
    job, restart = job_of(environment)
    try:
        ports = serve(f"preflight/{job}/{restart}/{node}/{os.getpid()}")
    except OSError:
        ports = ()
    card = Card(
        task=task,
        node=node,
        host=socket.gethostname(),
        addresses=own_addresses(interface),
        ports=ports,
        boot_id=_boot_id(),
        cpus=len(os.sched_getaffinity(0)),
    )
    step = {"job": job, "restart": restart, "nodes": _step_nodes(environment)}
    return {"kind": "card", "card": card_value(card), **step}


def _step_nodes(environment: Mapping[str, str]) -> str:
    return environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_NODELIST") or ""


def own_addresses(interface: str | None) -> tuple[str, ...]:
    """Of all interfaces but the loopback, or of that one; IPv4 first. None that are valid on one link only."""
    import psutil

    found: dict[int, list[str]] = {socket.AF_INET: [], socket.AF_INET6: []}
    for name, entries in psutil.net_if_addrs().items():
        if interface is not None and name != interface:
            continue
        for entry in entries:
            address = entry.address.partition("%")[0]
            local = address.startswith(("127.", "fe80:", "169.254.")) or address == "::1"
            if entry.family in found and not local:
                found[entry.family].append(address)
    return tuple(found[socket.AF_INET] + found[socket.AF_INET6])


def _boot_id() -> str:
    try:
        return boot_id()
    except OSError:
        return ""
