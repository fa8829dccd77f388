"""Between tensors or arrays and the bytes they are: no copy where none is needed.

Only dense tensors and arrays of numbers: whatever else would need code to be rebuilt is refused by name.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.format.element_type import NUMPY_PREFIX, element_type
from slurm_resilience.checkpoint.format.part_format import UnknownFormat

_MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class Allocation:
    """Fresh memory of a tensor or array, and the same as bytes to be filled."""

    value: Any
    bytes: memoryview


def dtype_name(value: torch.Tensor | np.ndarray[Any, Any]) -> str:
    """The name under which the part keeps the elements' type: `bfloat16`, `numpy:<f4`."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch.")
    return f"{NUMPY_PREFIX}{value.dtype.str}"


def refusal(value: torch.Tensor | np.ndarray[Any, Any]) -> str | None:
    """Why `value` can't be kept; None when it can."""
    if sys.byteorder != "little":
        return "this machine is big-endian, which the format doesn't know"
    if isinstance(value, torch.Tensor):
        return _refusal_of_tensor(value)
    if type(value) is not np.ndarray:
        return "it is a subclass of numpy.ndarray: hand over numpy.asarray(it)"
    if element_type(dtype_name(value)) is None:
        return f"arrays of dtype {value.dtype} can't be kept without pickle"
    return None if value.ndim <= _MOST_DIMENSIONS else f"it has {value.ndim} dimensions, HDF5 takes {_MOST_DIMENSIONS}"


def _refusal_of_tensor(tensor: torch.Tensor) -> str | None:
    if tensor.is_nested or tensor.layout is not torch.strided:
        return f"its layout is {'nested' if tensor.is_nested else tensor.layout}, only dense tensors can be kept"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return "it is a subclass of torch.Tensor: hand over the plain tensor (a DTensor's `.to_local()`)"
    if tensor.is_quantized:
        return f"it is quantized ({dtype_name(tensor)}): hand over its int_repr(), scales and zero points"
    if tensor.device.type == "meta":
        return "it lies on the meta device and has no content"
    if element_type(dtype_name(tensor)) is None:
        return f"the format doesn't know the dtype {tensor.dtype}"
    if tensor.ndim > _MOST_DIMENSIONS:
        return f"it has {tensor.ndim} dimensions, HDF5 takes {_MOST_DIMENSIONS}"
    return None


def identity(tensor: torch.Tensor) -> tuple[object, ...]:
    """Two tensors with equal identities are one memory seen in one way: written once, shared again on load.

    Valid while both live. Views that only overlap have different identities and are kept as copies.
    """
    if tensor.numel() == 0:
        return (id(tensor),)
    where = (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (*where, tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg())


def bytes_of(value: torch.Tensor | np.ndarray[Any, Any]) -> memoryview:
    """The elements in C order. A view where the value is contiguous and in the CPU's memory, otherwise a copy."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 0:
            return memoryview(b"")
        dense = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return dense.reshape(-1).view(torch.uint8).numpy().data
    if value.size == 0:
        return memoryview(b"")
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def allocate(dtype: str, shape: tuple[int, ...]) -> Allocation:
    """A CPU tensor or array of its own, not yet filled. UnknownFormat where this torch lacks the dtype."""
    if dtype.startswith(NUMPY_PREFIX):
        array = np.empty(shape, dtype=np.dtype(dtype.removeprefix(NUMPY_PREFIX)))
        return Allocation(array, array.reshape(-1).view(np.uint8).data)
    known = getattr(torch, dtype, None)
    if not isinstance(known, torch.dtype):
        raise UnknownFormat(f"a tensor has dtype {dtype}, which torch {torch.__version__} doesn't have")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "ComplexHalf is experimental": it is only memory here
        tensor = torch.empty(shape, dtype=known)
    if tensor.numel() == 0:
        return Allocation(tensor, memoryview(bytearray()))
    return Allocation(tensor, tensor.reshape(-1).view(torch.uint8).numpy().data)
