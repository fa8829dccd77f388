"""However the bytes are changed: the content as it was written, or an error that says so. Nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointError

STATE: dict[str, Any] = {
    "w": torch.arange(100.0),
    "b": torch.arange(5, dtype=torch.bfloat16),
    "tied": [torch.ones(3)] * 2,
    "step": 7,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Hdf5Store:
    return Hdf5Store(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def receipt(store: Hdf5Store) -> PartReceipt:
    return store.write_part("step-7.a1", rank=0, state=STATE, attributes={"step": 7})


@pytest.fixture(scope="module")
def content(store: Hdf5Store, receipt: PartReceipt) -> bytes:
    return store.path_of(receipt).read_bytes()


SPANS = st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=64))


def _flipped(content: bytes, at: int, bits: bytes) -> bytes:
    at %= len(content)
    span = content[at : at + len(bits)]
    return content[:at] + bytes(a ^ b for a, b in zip(span, bits, strict=False)) + content[at + len(span) :]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["flip", "insert", "remove", "truncate", "move"]), span=SPANS, other=st.integers(0, 2**20))
def test_any_change_is_found_or_changes_nothing(
    store: Hdf5Store, receipt: PartReceipt, content: bytes, kind: str, span: tuple[int, bytes], other: int
) -> None:
    at, data = span[0] % len(content), span[1]
    changed = {
        "flip": _flipped(content, at, data),
        "insert": content[:at] + data + content[at:],
        "remove": content[:at] + content[at + len(data) :],
        "truncate": content[:at],
        "move": _moved(content, at, other % len(content), len(data)),
    }[kind]
    path = store.path_of(receipt)
    path.write_bytes(changed)
    try:
        loaded = store.read_part(receipt)
    except CheckpointError:
        assert changed != content
    else:
        assert compare_states(STATE, loaded) == []  # padding, which nobody reads
        store.verify_part(receipt)
    finally:
        path.write_bytes(content)


def _moved(content: bytes, source: int, target: int, length: int) -> bytes:
    piece = content[source : source + length]
    return content[:target] + piece + content[target + len(piece) :]


def test_a_flip_of_any_byte_of_the_head_or_of_any_element_is_found(
    store: Hdf5Store, receipt: PartReceipt, content: bytes
) -> None:
    head_bytes = int(receipt.checksum.rsplit(":", 1)[1])
    path = store.path_of(receipt)
    unnoticed = []
    with path.open("r+b", buffering=0) as file:
        for at in range(len(content)):
            file.seek(at)
            file.write(bytes([content[at] ^ 0x10]))
            try:
                store.verify_part(receipt)
                unnoticed.append(at)
            except CheckpointDamaged:
                pass
            file.seek(at)
            file.write(content[at : at + 1])
    elements = sum(entry.bytes for entry in store.verify_part(receipt))
    assert len(content) - len(unnoticed) == head_bytes + elements
    assert not any(content[at] for at in unnoticed)


@pytest.mark.parametrize("name", ["w", "b", "tied/0"])
def test_the_tensor_that_is_damaged_is_named_with_what_was_written(
    store: Hdf5Store, receipt: PartReceipt, content: bytes, name: str
) -> None:
    entry = next(each for each in store.verify_part(receipt) if each.name == name)
    elements = {"w": STATE["w"], "b": STATE["b"].view(torch.int16), "tied/0": STATE["tied"][0]}[name].numpy().tobytes()
    at = content.rindex(elements)
    path = store.path_of(receipt)
    path.write_bytes(_flipped(content, at + 1, b"\x01"))
    try:
        with pytest.raises(CheckpointDamaged) as caught:
            store.read_part(receipt)
    finally:
        path.write_bytes(content)
    assert f"tensor {name} has the checksum" in str(caught.value)
    assert f"{entry.checksum} was written" in str(caught.value)
    assert str(path) in str(caught.value)
