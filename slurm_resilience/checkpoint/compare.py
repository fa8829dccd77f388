"""Are two states the same, bit for bit? Where not, what differs first."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.format.path_name import in_words, segments_of
from slurm_resilience.checkpoint.format.tensor import bytes_of, dtype_name
from slurm_resilience.checkpoint.store import CheckpointStore, PartReceipt


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    """The path, as in `TensorEntry.name`."""
    why: str


@dataclass(frozen=True, slots=True)
class StoredPart:
    store: CheckpointStore
    receipt: PartReceipt


def compare_parts(a: StoredPart, b: StoredPart, *, prefixes: Sequence[str] = ()) -> list[Difference]:
    """`compare_states` of two parts, which may lie in different runs. Raises what `read_part` raises."""
    return compare_states(a.store.read_part(a.receipt), b.store.read_part(b.receipt), prefixes=prefixes)


def compare_states(a: Mapping[str, Any], b: Mapping[str, Any], *, prefixes: Sequence[str] = ()) -> list[Difference]:
    """Every place where `a` and `b` differ, in the order of `a`; none when they are the same.

    Numbers and elements are compared by their bits: a NaN equals itself, and 0.0 is not -0.0. Types, dtypes and
    shapes count; devices, strides, `requires_grad` and what is tied to what don't. With `prefixes` only names that
    are, or lie below, one of them: `("model", "optimizer/state")`.
    """
    wanted = [prefix.rstrip("/") for prefix in prefixes]
    found = _compare(dict(a), dict(b), "")
    return [difference for difference in found if not wanted or _below(difference.name, wanted)]


def _below(name: str, prefixes: Sequence[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}/") for prefix in prefixes)


def _compare(a: Any, b: Any, name: str) -> Iterator[Difference]:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        yield from _compare_elements(a, b, name)
    elif type(a) is not type(b):
        yield Difference(name, f"a {_kind(a)} here, a {_kind(b)} there")
    elif isinstance(a, np.ndarray):
        yield from _compare_elements(a, b, name)
    elif isinstance(a, Mapping):
        yield from _compare_mappings(a, b, name)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            yield Difference(name, f"{len(a)} items here, {len(b)} there")
        for index, (item, other) in enumerate(zip(a, b, strict=False)):
            yield from _compare(item, other, _join(name, str(index)))
    elif _bits(a) != _bits(b):
        yield Difference(name, f"{_short(a)} here, {_short(b)} there")


def _compare_mappings(a: Mapping[Any, Any], b: Mapping[Any, Any], name: str) -> Iterator[Difference]:
    for segment, (key, value) in zip(segments_of(a), a.items(), strict=True):
        if key in b:
            yield from _compare(value, b[key], _join(name, segment))
        else:
            yield Difference(_join(name, segment), "only here")
    for segment, key in zip(segments_of(b), b, strict=True):
        if key not in a:
            yield Difference(_join(name, segment), "only there")


def _compare_elements(a: Any, b: Any, name: str) -> Iterator[Difference]:
    if dtype_name(a) != dtype_name(b) or tuple(a.shape) != tuple(b.shape):
        here, there = (f"{dtype_name(each)} {tuple(each.shape)}" for each in (a, b))
        yield Difference(name, f"{here} here, {there} there")
        return
    mine, other = (np.frombuffer(bytes_of(each), dtype=np.uint8) for each in (a, b))
    if np.array_equal(mine, other):
        return
    count = a.numel() if isinstance(a, torch.Tensor) else a.size
    differing = (mine != other).reshape(count, -1).any(axis=1)
    first = int(differing.argmax())
    item_bytes = len(mine) // count
    here, there = (each[first * item_bytes : (first + 1) * item_bytes].tobytes().hex() for each in (mine, other))
    where = tuple(int(index) for index in np.unravel_index(first, tuple(a.shape)))
    yield Difference(
        name, f"{int(differing.sum())} of {count} elements differ, first at {where}: bytes {here} here, {there} there"
    )


def _bits(value: Any) -> object:
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    return value


def _join(name: str, segment: str) -> str:
    return f"{name}/{segment}" if name else segment


def _kind(value: Any) -> str:
    return type(value).__name__


def _short(value: Any) -> str:
    text = in_words(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
