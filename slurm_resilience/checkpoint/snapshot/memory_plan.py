"""Whether the snapshots of a node's ranks fit into its memory. Pure: what there is comes in as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.size import size_text

_LEAST_MARGIN_BYTES = 1 << 30
_MARGIN = 0.05
"""Of what is free: page tables, the next step's activations on the host, and what other processes come to want."""


@dataclass(frozen=True, slots=True)
class Budget:
    image_bytes: int
    """What one rank's snapshot takes beyond what it holds already."""
    ranks_on_node: int
    available_bytes: int
    """What the machine can give without swapping (MemAvailable)."""
    limit_bytes: int | None
    """What the job's own limit leaves; None: it has none."""


@dataclass(frozen=True, slots=True)
class Fits:
    left_bytes: int
    """Beyond the margin."""


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    why: str


def plan_memory(budget: Budget) -> Fits | DoesNotFit:
    """The limit counts for all the job's processes on the node, so all its ranks' snapshots have to fit in it."""
    needed_bytes = budget.image_bytes * budget.ranks_on_node
    rooms = [(budget.available_bytes, "the node has available")]
    if budget.limit_bytes is not None:
        rooms.append((budget.limit_bytes, "the job's memory limit leaves"))
    room_bytes, whose = min(rooms)
    margin_bytes = max(_LEAST_MARGIN_BYTES, int(room_bytes * _MARGIN))
    left_bytes = room_bytes - margin_bytes - needed_bytes
    if left_bytes >= 0:
        return Fits(left_bytes)
    ranks = "1 rank" if budget.ranks_on_node == 1 else f"{budget.ranks_on_node} ranks"
    return DoesNotFit(
        f"a snapshot takes {size_text(budget.image_bytes)} for each of {ranks}, {size_text(needed_bytes)} in all; "
        f"{whose} {size_text(room_bytes)}, of which {size_text(margin_bytes)} stay free"
    )
