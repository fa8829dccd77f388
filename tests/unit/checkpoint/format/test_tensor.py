"""Tensors and arrays are the bytes they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.format.element_type import element_type, torch_names
from slurm_resilience.checkpoint.format.part_format import UnknownFormat
from slurm_resilience.checkpoint.format.tensor import allocate, bytes_of
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

OF_THIS_TORCH = [name for name in torch_names() if isinstance(getattr(torch, name, None), torch.dtype)]
SHAPES = [(), (1,), (0,), (3, 0, 2), (5,), (2, 3, 4)]


def _filled(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Every bit pattern there is, so far as it fits."""
    allocation = allocate(name, shape)
    for index in range(len(allocation.bytes)):
        allocation.bytes[index] = index % 2 if name == "bool" else (index * 37 + 11) % 256
    tensor: torch.Tensor = allocation.value
    return tensor


@pytest.mark.parametrize("name", OF_THIS_TORCH)
def test_a_tensor_of_any_dtype_and_shape_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    whole = _filled(name, (4, 6))
    state = {str(shape): _filled(name, shape) for shape in SHAPES}
    state |= {"turned": whole.t(), "one of many": whole[1:2, 3], "every third": whole[::3, 1]}
    store = Hdf5Store(tmp_path)
    receipt = store.write_part("step-1.a1", rank=0, state=state, attributes={})
    loaded = store.read_part(receipt)
    for key, tensor in state.items():
        assert loaded[key].dtype == tensor.dtype
        assert loaded[key].shape == tensor.shape
        assert bytes(bytes_of(loaded[key])) == bytes(bytes_of(tensor))
    assert {entry.dtype for entry in store.verify_part(receipt)} == {name}


def test_every_plain_dtype_of_this_torch_is_known() -> None:
    there = {str(value).removeprefix("torch.") for value in vars(torch).values() if isinstance(value, torch.dtype)}
    quantized = {name for name in there if name.startswith(("qint", "quint"))}
    unknown = {name for name in there - quantized if element_type(name) is None}
    assert unknown <= {"bit"}  # torch's other name for uint1


@pytest.mark.parametrize("dtype", ["|b1", "|i1", "<i8", ">i4", "|u1", "<u2", ">u8", "<f2", "<f8", ">f4", "<c8", ">c16"])
def test_an_array_of_any_number_and_byte_order_comes_back(dtype: str, tmp_path: Path) -> None:
    array: Any = np.arange(6).astype(dtype).reshape(2, 3)
    state = {"c": array, "fortran": np.asfortranarray(array), "scalar": array[0, 1].reshape(()), "none": array[:0]}
    store = Hdf5Store(tmp_path)
    loaded = store.read_part(store.write_part("step-1.a1", rank=0, state=state, attributes={}))
    assert compare_states(state, loaded) == []
    assert loaded["c"].dtype.str == dtype
    assert loaded["c"].flags.writeable


def test_a_tensor_is_kept_as_it_looks_whatever_its_strides(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    imaginary = torch.tensor([1 + 2j, 3 - 4j])
    state = {
        "transposed": base.t(),
        "every second": base[:, ::2],
        "offset": base[2:],
        "expanded": torch.tensor([7.0]).expand(3, 4),
        "channels last": torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
        "conjugate": imaginary.conj(),
        "negative": imaginary.conj().imag,
    }
    store = Hdf5Store(tmp_path)
    loaded = store.read_part(store.write_part("step-1.a1", rank=0, state=state, attributes={}))
    for name, tensor in state.items():
        assert torch.equal(loaded[name], tensor), name
        assert loaded[name].is_contiguous(), name


def test_bytes_of_a_contiguous_tensor_are_its_memory() -> None:
    tensor = torch.zeros(3, dtype=torch.bfloat16)
    view = bytes_of(tensor)
    tensor += 1
    assert bytes(view) == bytes.fromhex("803f803f803f")


def test_a_dtype_that_this_torch_lacks_is_an_unknown_format() -> None:
    with pytest.raises(UnknownFormat, match="float7_e4m2"):
        allocate("float7_e4m2", (3,))
