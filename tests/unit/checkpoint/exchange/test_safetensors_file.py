"""The safetensors format, written and read by ourselves."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.exchange.safetensors_file import read_safetensors, write_safetensors
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    *(torch.bool, torch.complex64),
]


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape, raw(a[name])) == (b[name].dtype, b[name].shape, raw(b[name])) for name in a
    )


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    size = torch.empty(shape, dtype=dtype).numel() * dtype.itemsize
    values = torch.arange(size, dtype=torch.uint8) % 2
    return values.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"a.b": some(dtype, 3, 2), "scalar": some(dtype), "nothing": some(dtype, 0, 4)}
    write_safetensors(tmp_path / "x", tensors, {"format": "pt"})
    back, metadata = read_safetensors(tmp_path / "x")
    assert same(back, tensors)
    assert metadata == {"format": "pt"}
    assert all(tensor.is_contiguous() for tensor in back.values())
    back["a.b"].zero_()  # its memory is its own


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)),
        max_size=6,
    )
)
def test_what_is_written_lies_without_gaps_and_aligned(
    tmp_path_factory: pytest.TempPathFactory, wanted: dict[str, tuple[torch.dtype, list[int]]]
) -> None:
    path = tmp_path_factory.mktemp("s") / "x.safetensors"
    tensors = {name: some(dtype, *shape) for name, (dtype, shape) in wanted.items()}
    seen: list[int] = []
    write_safetensors(path, tensors, {}, progress=seen.append)
    content = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", content[:8])
    assert header_bytes % 8 == 0
    header = json.loads(content[8 : 8 + header_bytes])
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert [start for start, _ in offsets] == [0, *(end for _, end in offsets)][: len(offsets)]
    assert len(content) == 8 + header_bytes + (offsets[-1][1] if offsets else 0)
    for name, entry in header.items():
        assert entry["data_offsets"][0] % tensors[name].element_size() == 0
    assert sum(seen) == sum(end - start for start, end in offsets)
    assert same(read_safetensors(path)[0], tensors)


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="the safetensors package is not installed")
def test_the_safetensors_package_reads_what_we_write_and_we_what_it_writes(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file  # type: ignore[import-not-found,unused-ignore]

    tensors = {"w": torch.randn(3, 4), "b": torch.randn(4).to(torch.bfloat16), "n": torch.tensor(3)}
    write_safetensors(tmp_path / "ours", tensors, {"format": "pt"})
    assert same(load_file(tmp_path / "ours"), tensors)
    save_file(tensors, tmp_path / "theirs", {"format": "pt"})
    assert same(read_safetensors(tmp_path / "theirs")[0], tensors)


def test_a_tensor_that_is_transposed_or_shared_is_written_by_its_values(tmp_path: Path) -> None:
    base = torch.arange(6.0).reshape(2, 3)
    write_safetensors(tmp_path / "x", {"a": base.t(), "b": base, "c": base}, {})
    back, _ = read_safetensors(tmp_path / "x")
    assert torch.equal(back["a"], base.t())
    assert torch.equal(back["c"], base)


def test_a_dtype_that_the_format_lacks_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match=r"big\.one is of torch.complex128"):
        write_safetensors(tmp_path / "x", {"big.one": torch.zeros(2, dtype=torch.complex128)}, {})


def written(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no safetensors file"),
        (b"\x01", "no safetensors file"),
        (struct.pack("<Q", 1 << 60) + b"{}", "no safetensors file"),
        (written(b"{not json"), "no JSON"),
        (written(b"[" * 100_000), "no JSON"),
        (written([1]), "not that of a safetensors file"),
        (written({"__metadata__": 7}), "not that of a safetensors file"),
        (written({"w": 7}), "doesn't say where w lies"),
        (written({"w": ENTRY | {"shape": [-2]}}, bytes(8)), "doesn't say where w lies"),
        (written({"w": ENTRY | {"shape": [True]}}, bytes(8)), "doesn't say where w lies"),
        (written({"w": ENTRY | {"data_offsets": [0]}}, bytes(8)), "doesn't say where w lies"),
        (written({"w": ENTRY}, bytes(7)), "cut short or altered"),
        (written({"w": ENTRY | {"data_offsets": [8, 0]}}, bytes(8)), "cut short or altered"),
        (written({"w": ENTRY | {"shape": [1 << 40]}}, bytes(8)), "cut short or altered"),
    ],
)
def test_a_file_that_contradicts_itself_is_damaged(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointDamaged, match=complaint):
        read_safetensors(tmp_path / "x")


def test_an_unknown_dtype_is_unsupported_and_a_missing_file_unavailable(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(written({"w": ENTRY | {"dtype": "F1"}}, bytes(8)))
    with pytest.raises(CheckpointUnsupported, match="w has the dtype F1"):
        read_safetensors(tmp_path / "x")
    with pytest.raises(CheckpointUnavailable, match="No such file"):
        read_safetensors(tmp_path / "y")
