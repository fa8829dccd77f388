"""What `sinfo -N` says of nodes: one line a node and partition, in columns; the reason, free text, is the last."""

from __future__ import annotations

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.fixed_lines import fixed_and_free
from slurm_resilience.slurm.client import NodeRecord

_NAME, _STATE, _REASON = 300, 400, 600
FORMAT = f"NodeList:{_NAME},StateComplete:{_STATE},Reason:{_REASON}"
_RECORD = _NAME + _STATE


def read_nodes(answer: str) -> tuple[NodeRecord, ...]:
    """Each node once, in the order of sinfo."""
    records: dict[str, NodeRecord] = {}
    for fixed, reason in fixed_and_free(answer, _RECORD, no_record="sinfo's answer begins with no record of a node"):
        name, states = fixed[:_NAME].strip(), fixed[_NAME:].strip()
        if not name or not states:
            raise SlurmUnparsable(f"sinfo says nothing of the state of node {name!r}")
        said = reason.strip()
        records[name] = NodeRecord(name, _states(states), "" if said.lower() in ("none", "(null)") else said)
    return tuple(records.values())


def _states(text: str) -> tuple[str, ...]:
    return tuple(word.upper() for word in text.split("+"))
