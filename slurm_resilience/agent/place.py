"""Where this agent is, as Slurm says; outside Slurm it is node 0, task 0."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_resilience.launch.plan import CommandKind


@dataclass(frozen=True, slots=True)
class Place:
    node_id: int
    slot: int
    """Whose record it is: the node's id, or the task's number where there is one agent a task."""
    local_task: int | None
    """The task's number on its node; None where there is one agent a node."""
    host: str

    @property
    def name(self) -> str:
        return f"n{self.node_id}" if self.local_task is None else f"t{self.slot}"


def place(kind: CommandKind, environment: Mapping[str, str]) -> Place:
    node_id = int(environment.get("SLURM_NODEID", "0"))
    host = environment.get("SLURMD_NODENAME") or socket.gethostname()
    match kind:
        case CommandKind.TORCHRUN:
            return Place(node_id, node_id, None, host)
        case CommandKind.TASK:
            slot = int(environment.get("SLURM_PROCID", "0"))
            return Place(node_id, slot, int(environment.get("SLURM_LOCALID", "0")), host)
