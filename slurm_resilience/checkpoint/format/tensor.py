"""Between tensors or arrays and the bytes they are: no copy where none is needed.

Only dense tensors and arrays of numbers: whatever else would need code to be rebuilt is refused by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slurm_resilience.checkpoint.disk.memory import fresh_memory
from slurm_resilience.checkpoint.format.element_type import NUMPY_PREFIX, Storage, element_type
from slurm_resilience.checkpoint.format.part_format import Dataset, UnknownFormat

_MOST_DIMENSIONS = 32

_ALONE_FROM_BYTES = 2 << 20
_SHARED_BYTES = 32 << 20
_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor or array in fresh memory, and the same as bytes to be filled."""

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


_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16}


def as_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, of a dtype that torch can copy: of those that it only knows the bits of, it copies some."""
    element = element_type(dtype_name(tensor))
    if element is None or element.storage is not Storage.RAW:
        return tensor
    return tensor.view(_WHOLE_NUMBERS[element.item_bytes])


def bytes_of(value: torch.Tensor | np.ndarray[Any, Any]) -> memoryview:
    """The elements in C order. A view where the value is contiguous and in the CPU's memory, otherwise a copy."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 0:
            return memoryview(b"")
        dense = as_numbers(value.detach()).resolve_conj().resolve_neg().cpu().contiguous()
        # Not reshape: it leaves a single element its stride, whatever that was, and then it can't be seen as bytes.
        return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy().data
    if value.size == 0:
        return memoryview(b"")
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def as_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor of the same numbers, in this machine's byte order. Raises TypeError for a dtype that torch lacks."""
    return torch.from_numpy(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False)))


def allocate(dtype: str, shape: tuple[int, ...]) -> Allocation:
    """A CPU tensor or array of its own, zeros. UnknownFormat where this torch lacks the dtype."""
    return allocate_all([Dataset("", dtype, shape)])[0]


def allocate_all(datasets: Sequence[Dataset]) -> list[Allocation]:
    """Memory for many tensors: huge pages for the large ones, few mappings for the small ones.

    What is small shares a mapping with its neighbours, which is given back when the last of them is; that is not the
    whole part, since optimizer state is kept for long where weights are copied and let go.
    """
    allocations: dict[int, Allocation] = {}
    shared: list[int] = []
    shared_bytes = 0
    for row, dataset in enumerate(datasets):
        if dataset.bytes >= _ALONE_FROM_BYTES:
            allocations[row] = _in_memory(dataset, fresh_memory(dataset.bytes))
            continue
        shared.append(row)
        shared_bytes += _with_padding(dataset.bytes)
        if shared_bytes >= _SHARED_BYTES:
            allocations |= _side_by_side(datasets, shared)
            shared, shared_bytes = [], 0
    allocations |= _side_by_side(datasets, shared)
    return [allocations[row] for row in range(len(datasets))]


def _side_by_side(datasets: Sequence[Dataset], rows: Sequence[int]) -> dict[int, Allocation]:
    memory = fresh_memory(sum(_with_padding(datasets[row].bytes) for row in rows) or 1)
    start = 0
    allocations = {}
    for row in rows:
        allocations[row] = _in_memory(datasets[row], memory[start : start + datasets[row].bytes])
        start += _with_padding(datasets[row].bytes)
    return allocations


def _with_padding(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _in_memory(dataset: Dataset, memory: memoryview) -> Allocation:
    """A value whose elements are `memory`. It has a storage of its own, no larger than it is."""
    if dataset.dtype.startswith(NUMPY_PREFIX):
        dtype = np.dtype(dataset.dtype.removeprefix(NUMPY_PREFIX))
        return Allocation(np.frombuffer(memory, dtype=dtype).reshape(dataset.shape), memory)
    known = getattr(torch, dataset.dtype, None)
    if not isinstance(known, torch.dtype):
        raise UnknownFormat(f"a tensor has dtype {dataset.dtype}, which torch {torch.__version__} doesn't have")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "ComplexHalf is experimental": it is only memory here
        if not memory:
            return Allocation(torch.empty(dataset.shape, dtype=known), memory)
        return Allocation(torch.frombuffer(memory, dtype=known).reshape(dataset.shape), memory)
