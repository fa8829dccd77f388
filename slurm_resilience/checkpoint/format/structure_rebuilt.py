"""A state from its structure document (see structure.py) and its tensors."""

from __future__ import annotations

import base64
import json
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.format.element_type import NUMPY_PREFIX, element_type
from slurm_resilience.checkpoint.format.part_format import PartError, UnknownFormat
from slurm_resilience.checkpoint.format.plain_float import float_of_bits


def rebuild(document: bytes, values: Sequence[Any]) -> dict[str, Any]:
    """The state as it was given to `flatten`. Leaves that shared a row share their memory again.

    Raises PartError for a document that contradicts itself, UnknownFormat for a type that this torch lacks.
    """
    try:
        state = _Rebuilding(values).decode(json.loads(document.decode("ascii"))["state"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, RuntimeError) as error:
        raise PartError(f"its structure can't be read ({type(error).__name__}: {error})") from error
    if type(state) is not dict:
        raise PartError("its structure is not that of a state")
    return state


class _Rebuilding:
    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._learning: dict[int, torch.Tensor] = {}

    def decode(self, encoded: Any) -> Any:  # noqa: C901, PLR0912 one case a type, nothing else
        if not isinstance(encoded, (dict, list)):
            return encoded
        if isinstance(encoded, list):
            return [self.decode(item) for item in encoded]
        match encoded:
            case {"dict": pairs}:
                return dict(self._pairs(pairs))
            case {"ordered": pairs}:
                ordered: Any = OrderedDict(self._pairs(pairs))
                if "metadata" in encoded:
                    ordered._metadata = self.decode(encoded["metadata"])  # noqa: SLF001 torch looks for it there
                return ordered
            case {"counter": pairs}:
                return Counter(dict(self._pairs(pairs)))
            case {"tuple": items}:
                return tuple(self.decode(items))
            case {"set": items}:
                return set(self.decode(items))
            case {"frozenset": items}:
                return frozenset(self.decode(items))
            case {"int": digits}:
                return int(digits, 16)
            case {"float": bits}:
                return float_of_bits(bits)
            case {"complex": [real, imaginary]}:
                return complex(float_of_bits(real), float_of_bits(imaginary))
            case {"bytes": text}:
                return base64.b64decode(text, validate=True)
            case {"scalar": [dtype, text]}:
                if element_type(f"{NUMPY_PREFIX}{dtype}") is None:  # numpy would take far more than we write
                    raise PartError(f"its structure holds a scalar of dtype {dtype}")
                return np.frombuffer(base64.b64decode(text, validate=True), dtype=np.dtype(dtype))[0]
            case {"size": items}:
                return torch.Size(items)
            case {"dtype": name}:
                return _dtype(name)
            case {"device": name}:
                return torch.device(name)
            case {"array": row}:
                return self._values[_row(row)]
            case {"tensor": row}:
                return self._tensor(_row(row), requires_grad=encoded.get("requires_grad", False))
        raise PartError(f"its structure holds an unknown kind of value: {', '.join(sorted(encoded))[:80]}")

    def _pairs(self, pairs: list[Any]) -> list[tuple[Any, Any]]:
        return [(self.decode(key), self.decode(value)) for key, value in pairs]

    def _tensor(self, row: int, *, requires_grad: bool) -> torch.Tensor:
        value: torch.Tensor = self._values[row]
        if not requires_grad:
            return value
        if row not in self._learning:
            self._learning[row] = value.detach().requires_grad_()  # the same memory: it may be tied to one that doesn't
        return self._learning[row]


def _row(row: Any) -> int:
    if type(row) is not int or row < 0:
        raise PartError(f"its structure refers to tensor {row!r}")
    return row


def _dtype(name: str) -> torch.dtype:
    known = getattr(torch, name, None)
    if not isinstance(known, torch.dtype):
        raise UnknownFormat(f"it names the dtype {name}, which torch {torch.__version__} doesn't have")
    return known
