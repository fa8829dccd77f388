"""What lies where in the part that a rank writes for torch.distributed.checkpoint.

{"whole": {name: tensor}, "chunks": {name: {"0,4": tensor}}, "values": {name: value}}
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType

from slurm_resilience.errors import CheckpointUnsupported

WHOLE, CHUNKS, VALUES = "whole", "chunks", "values"


def state_of(items: Sequence[WriteItem], planner: SavePlanner) -> dict[str, Any]:
    """The state to write. CheckpointUnsupported, with the name, for a value that only pickle could keep."""
    state: dict[str, dict[str, Any]] = {WHOLE: {}, CHUNKS: {}, VALUES: {}}
    for item in items:
        name = item.index.fqn
        if item.type is WriteItemType.BYTE_IO:
            state[VALUES][name] = _value(item, planner)
            continue
        tensor = planner.resolve_data(item)
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointUnsupported(f"{name} can't be kept: the planner made a {type(tensor).__name__} of it")
        if item.type is WriteItemType.TENSOR:
            state[WHOLE][name] = tensor.detach()
        else:
            state[CHUNKS].setdefault(name, {})[_key(item.index.offset or ())] = tensor.detach()
    return {group: content for group, content in state.items() if content}


def found_in(state: Mapping[str, Any], index: MetadataIndex) -> Any:
    """What `state_of` put into the state for `index`. LookupError if nothing."""
    if index.fqn in state.get(VALUES, {}):
        return state[VALUES][index.fqn]
    if index.fqn in state.get(WHOLE, {}):
        return state[WHOLE][index.fqn]
    return state[CHUNKS][index.fqn][_key(index.offset or ())]


def as_bytes(value: Any) -> io.BytesIO:
    """As a LoadPlanner wants it. Made here, of plain values: nothing that was read is ever unpickled."""
    data = io.BytesIO()
    torch.save(value, data)
    data.seek(0)
    return data


def _value(item: WriteItem, planner: SavePlanner) -> Any:
    look_up = getattr(planner, "lookup_object", None)
    if look_up is not None:
        return look_up(item.index)
    data = planner.resolve_data(item)
    if not isinstance(data, io.BytesIO):
        raise CheckpointUnsupported(f"{item.index.fqn} can't be kept: the planner made a {type(data).__name__} of it")
    data.seek(0)
    try:
        return torch.load(data, weights_only=True)
    except Exception as error:  # pickle's own, and many others: whatever it is, it isn't plain
        raise CheckpointUnsupported(f"{item.index.fqn} can't be kept without pickle: {error}") from error


def _key(offsets: Sequence[int]) -> str:
    return ",".join(str(offset) for offset in offsets)
