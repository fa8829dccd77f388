"""A nested state as tensors with dotted names, for formats that know nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from slurm_resilience.errors import CheckpointUnsupported


def dotted(state: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a plain `state` (see `as_plain`), and its other values; both by their names joined by dots.

    Raises CheckpointUnsupported where two names become the same: keys may hold dots themselves.
    """
    tensors: dict[str, torch.Tensor] = {}
    others: dict[str, Any] = {}
    _walk(state, "", tensors, others)
    return tensors, others


def _walk(value: Any, name: str, tensors: dict[str, torch.Tensor], others: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            _walk(item, _join(name, key), tensors, others)
        return
    if isinstance(value, (list, tuple)) and value:
        for index, item in enumerate(value):
            _walk(item, _join(name, index), tensors, others)
        return
    if name in tensors or name in others:
        raise CheckpointUnsupported(f"two values would both be called {name}: export one object alone, or as torch")
    if isinstance(value, torch.Tensor):
        tensors[name] = value
    else:
        others[name] = _json(value)


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else f"{key}"


def _json(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return value
