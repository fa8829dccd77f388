"""How far two states are from each other, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.format.structure import flatten
from slurm_resilience.checkpoint.format.tensor import as_tensor

_AT_ONCE = 1 << 22
"""Elements that are made float64 at a time: a difference needs no copy of a whole tensor."""


@dataclass(frozen=True, slots=True)
class Distance:
    """In float64, or complex128. NaN where an element is NaN."""

    norm_a: float
    """Euclidean, of all elements."""
    norm_b: float
    norm_difference: float
    most: float
    """The largest |a - b|."""
    differing: int
    """Elements that are not equal as numbers: 0.0 equals -0.0, and NaN equals nothing."""
    count: int


@dataclass(frozen=True, slots=True)
class StateDifference:
    name: str
    why: str
    """In bits, as `compare` says it."""
    distance: Distance | None
    """None where there is none: no tensor, other shapes, elements that are no numbers."""


def state_differences(
    a: Mapping[str, Any], b: Mapping[str, Any], *, prefixes: Sequence[str] = ()
) -> list[StateDifference]:
    """Every place where `a` and `b` differ in their bits, in the order of `a`. None where they are the same.

    `prefixes` as for `compare_states`.
    """
    found = compare_states(a, b, prefixes=prefixes)
    if not found:
        return []
    tensors_a, tensors_b = _tensors(a), _tensors(b)
    return [
        StateDifference(each.name, each.why, _distance(tensors_a.get(each.name), tensors_b.get(each.name)))
        for each in found
    ]


def _tensors(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    flat = flatten(state)
    tensors: dict[str, torch.Tensor] = {}
    for dataset, value in zip(flat.datasets, flat.values, strict=True):
        tensor = _as_tensor(value)
        if tensor is not None:
            tensors |= dict.fromkeys((dataset.name, *dataset.also), tensor)
    return tensors


def _as_tensor(value: torch.Tensor | np.ndarray[Any, Any]) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value.detach()
    try:
        return as_tensor(value)
    except TypeError:  # a dtype that torch doesn't have
        return None


def _distance(a: torch.Tensor | None, b: torch.Tensor | None) -> Distance | None:
    if a is None or b is None or a.shape != b.shape:
        return None
    try:
        return _distance_of_numbers(a.reshape(-1), b.reshape(-1))
    except (RuntimeError, TypeError):  # torch can't turn every dtype into a number: packed and raw bits
        return None


def _distance_of_numbers(a: torch.Tensor, b: torch.Tensor) -> Distance:
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    squares_a = squares_b = squares = most = 0.0
    differing = 0
    for start in range(0, a.numel(), _AT_ONCE):
        x, y = (each[start : start + _AT_ONCE].to(wide) for each in (a, b))
        apart = torch.where(x == y, torch.zeros((), dtype=wide), x - y).abs()  # of two equal infinities too
        squares_a += _squares(x.abs())
        squares_b += _squares(y.abs())
        squares += _squares(apart)
        greatest = float(apart.max())
        most = greatest if math.isnan(greatest) or greatest > most else most
        differing += int((x != y).sum())
    return Distance(math.sqrt(squares_a), math.sqrt(squares_b), math.sqrt(squares), most, differing, a.numel())


def _squares(values: torch.Tensor) -> float:
    return float(values.square().sum())
