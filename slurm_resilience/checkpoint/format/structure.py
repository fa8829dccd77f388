"""The nesting of a state, as one JSON document whose leaves refer to tensors by row.

Data only: loading rebuilds the types named here and nothing else. No pickle, no import by name, no code.

    null, true, "text", 12, 1.5, [...]        themselves
    {"dict": [[key, value], …]}               also "ordered" (with its "metadata") and "counter"
    {"tuple": […]}, {"set": […]}, {"frozenset": […]}
    {"int": "0x…"}                            beyond 64 bits
    {"float": "7ff0000000000000"}             infinities and NaNs, by their bits
    {"complex": [real, imaginary]}            as bits
    {"bytes": "base64"}
    {"scalar": ["<f4", "base64"]}             a numpy scalar
    {"size": […]}, {"dtype": "bfloat16"}, {"device": "cuda:0"}
    {"tensor": row, "requires_grad": true}, {"array": row}

Beside the state: `tensors`, a row `[name, dtype, shape]` each, and `files`, those in which other rows' elements lie.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.format.element_type import NUMPY_PREFIX, element_type
from slurm_resilience.checkpoint.format.part_format import Dataset, files_of
from slurm_resilience.checkpoint.format.path_name import segments_of
from slurm_resilience.checkpoint.format.plain_float import encode_float, float_bits
from slurm_resilience.checkpoint.format.tensor import dtype_name, identity, refusal
from slurm_resilience.errors import CheckpointUnsupported

DEEPEST = 100
"""Nested further than this is taken for a state that contains itself."""

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_MAPPINGS: dict[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}


@dataclass(frozen=True, slots=True)
class Flattened:
    """A state taken apart: `values[row]` are the elements of `datasets[row]`."""

    document: bytes
    datasets: tuple[Dataset, ...]
    values: tuple[Any, ...]


def flatten(state: Mapping[str, Any], borrowed: Mapping[str, str] | None = None) -> Flattened:
    """Take `state` apart, copying nothing. CheckpointUnsupported, with the path, for what can't be kept.

    `borrowed` says of tensors (by their first names) in which file of the part's folder their elements lie already.
    Those without elements are never borrowed. ValueError for a name that no tensor has.
    """
    taking = _Taking()
    encoded = taking.encode(dict(state), ())
    lent = dict(borrowed or {})
    datasets = []
    for names, value in zip(taking.names, taking.values, strict=True):
        file = lent.pop(names[0], None)
        empty = 0 in value.shape
        datasets.append(
            Dataset(names[0], dtype_name(value), tuple(value.shape), tuple(names[1:]), None if empty else file)
        )
    if lent:
        raise ValueError(f"no tensor has the name {next(iter(lent))}, which is said to be borrowed")
    return Flattened(_document(encoded, datasets), tuple(datasets), tuple(taking.values))


def _document(encoded: Any, datasets: Sequence[Dataset]) -> bytes:
    document = {
        "state": encoded,
        "tensors": [[dataset.name, dataset.dtype, dataset.shape] for dataset in datasets],
        "files": files_of(datasets),
    }
    return json.dumps(document, separators=(",", ":")).encode("ascii")


class _Taking:
    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self.values: list[Any] = []
        self._rows: dict[tuple[object, ...], int] = {}

    def encode(self, value: Any, path: tuple[str, ...]) -> Any:
        if len(path) > DEEPEST:
            raise CheckpointUnsupported(f"{'/'.join(path[:4])}/… is nested more than {DEEPEST} deep")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return _str(value, path)
        if kind in _SCALARS:
            return _SCALARS[kind](value)
        if kind is list:
            return self._items(value, path)
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: self._items(value, path)}
        if kind in _MAPPINGS:
            return self._mapping(value, _MAPPINGS[kind], path)
        if isinstance(value, (torch.Tensor, np.ndarray)):
            return self._leaf(value, path)
        if isinstance(value, np.generic) and element_type(NUMPY_PREFIX + value.dtype.str) is not None:
            return {"scalar": [value.dtype.str, _text(value.tobytes())]}
        raise CheckpointUnsupported(
            f"{'/'.join(path)} is a {kind.__module__}.{kind.__qualname__}, which can't be kept without pickle"
        )

    def _items(self, values: Iterable[Any], path: tuple[str, ...]) -> list[Any]:
        return [self.encode(value, (*path, str(index))) for index, value in enumerate(values)]

    def _mapping(self, value: dict[Any, Any], tag: str, path: tuple[str, ...]) -> dict[str, Any]:
        segments = segments_of(value)
        pairs = [
            [_key(key, (*path, segment)), self.encode(item, (*path, segment))]
            for segment, (key, item) in zip(segments, value.items(), strict=True)
        ]
        encoded: dict[str, Any] = {tag: pairs}
        # torch keeps the modules' versions beside the weights, where `load_state_dict` looks for them.
        metadata = getattr(value, "_metadata", None) if tag == "ordered" else None
        if metadata is not None:
            encoded["metadata"] = self.encode(metadata, (*path, "_metadata"))
        return encoded

    def _leaf(self, value: torch.Tensor | np.ndarray[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
        name = "/".join(path)
        why_not = refusal(value)
        if why_not is not None:
            raise CheckpointUnsupported(f"{name} can't be kept: {why_not}")
        tensor = isinstance(value, torch.Tensor)
        same = identity(value) if isinstance(value, torch.Tensor) else (id(value),)
        row = self._rows.setdefault(same, len(self.names))
        if row == len(self.names):
            self.names.append([name])
            self.values.append(value)
        else:
            self.names[row].append(name)
        encoded: dict[str, Any] = {"tensor" if tensor else "array": row}
        if isinstance(value, torch.Tensor) and value.requires_grad:
            encoded["requires_grad"] = True
        return encoded


def _key(key: Any, path: tuple[str, ...]) -> Any:
    kind = type(key)
    if key is None or kind is bool:
        return key
    if kind is str:
        return _str(key, path)
    if kind in (int, float):
        return _SCALARS[kind](key)
    if kind is tuple:
        return {"tuple": [_key(item, path) for item in key]}
    raise CheckpointUnsupported(
        f"{'/'.join(path)} has a {kind.__module__}.{kind.__qualname__} as key, which can't be kept without pickle"
    )


def _str(value: str, path: tuple[str, ...]) -> str:
    if not value.isascii() and _SURROGATE_PAIR.search(value):
        raise CheckpointUnsupported(
            f"{'/'.join(path)} is a text with a pair of surrogates, of which JSON would make one character"
        )
    return value


def _int(value: int) -> Any:
    # hex() because decimal text of more than 4300 digits is refused by Python itself.
    return value if -(2**63) <= value < 2**63 else {"int": hex(value)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: _int,
    float: encode_float,
    complex: lambda value: {"complex": [float_bits(value.real), float_bits(value.imag)]},
    bytes: lambda value: {"bytes": _text(value)},
    torch.Size: lambda value: {"size": list(value)},
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.device: lambda value: {"device": str(value)},
}
