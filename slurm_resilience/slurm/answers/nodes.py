"""What `sinfo -N` says of nodes: one line a node and partition, in columns; the reason, free text, is the last."""

from __future__ import annotations

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.client import NodeRecord

_NAME, _STATE, _REASON = 300, 400, 600
FORMAT = f"NodeList:{_NAME},StateComplete:{_STATE},Reason:{_REASON}"
_RECORD = _NAME + _STATE


def read_nodes(answer: str) -> tuple[NodeRecord, ...]:
    """Each node once, in the order of sinfo. A line shorter than a record goes on with the reason before it."""
    found: list[tuple[str, str, list[str]]] = []
    for line in answer.split("\n"):
        if len(line) >= _RECORD:
            found.append((line[:_NAME].strip(), line[_NAME:_RECORD].strip(), [line[_RECORD:]]))
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise SlurmUnparsable(f"sinfo's answer begins with no record of a node: {line.strip()[:200]!r}")
    records: dict[str, NodeRecord] = {}
    for name, states, reason in found:
        if not name or not states:
            raise SlurmUnparsable(f"sinfo says nothing of the state of node {name!r}")
        said = "\n".join(reason).strip()
        records[name] = NodeRecord(name, _states(states), "" if said.lower() in ("none", "(null)") else said)
    return tuple(records.values())


def _states(text: str) -> tuple[str, ...]:
    return tuple(word.upper() for word in text.split("+"))
