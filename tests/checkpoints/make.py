"""Makes the corpus in this folder: `python -m tests.checkpoints.make`, from the top of the repository.

    must_load/v2/<what it holds>/                  run directory with one part, and receipt.json
    must_refuse/v2/<damaged|unsupported>/<what is wrong>/

Every format version keeps its own folder for ever: files of an old version are never made again, only the newest
version's may be. They pin the format: a reader that can't read them any more, or takes a wrong one, is a wrong reader.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.format.part_format import FORMAT_VERSION, HeadChecksum
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt

Spoiling = Callable[[Path, PartReceipt], PartReceipt]
"""Makes a part wrong, and says with which receipt it is to be refused."""

HERE = Path(__file__).parent
CHECKPOINT = "step-0000000120.a3"
OLDER = "step-0000000100.a3"
LENDER = f"rank-00000.from-{OLDER}.h5"
ATTRIBUTES: dict[str, Any] = {"step": 120, "attempt": 3, "world_size": 2, "note": "Grüße", "nothing": None, "loss": 0.1}


def states() -> dict[str, dict[str, Any]]:
    """What the parts below must_load hold."""
    tied = torch.arange(6.0).reshape(2, 3)
    floats = {name: torch.arange(4).to(getattr(torch, name)) for name in ("float16", "bfloat16", "float32", "float64")}
    integers = {name: torch.arange(4).to(getattr(torch, name)) for name in ("int8", "int16", "int32", "int64", "uint8")}
    wide = {name: torch.tensor([1, 2**15], dtype=getattr(torch, name)) for name in ("uint16", "uint32", "uint64")}
    eights = {
        name: torch.tensor([0.5, 2.0]).to(getattr(torch, name))
        for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
    }
    return {
        "nothing": {},
        "borrowed": {"frozen": tied, "again": tied, "learning": torch.ones(2), "step": torch.tensor(3)},
        "dtypes": {**floats, **integers, **wide, **eights, "bool": torch.tensor([True]), "c": torch.tensor([1 + 2j])},
        "shapes": {"scalar": torch.tensor(1.5), "empty": torch.empty(0, 3), "cube": torch.zeros(2, 1, 3)},
        "tied_and_learning": {"a": tied, "b": {"c": tied}, "p": torch.nn.Parameter(tied.detach())},
        "arrays": {"native": np.arange(3), "big_endian": np.arange(3, dtype=">f4"), "scalar": np.float32(1.5)},
        "structure": {
            "keys": {0: 1, "0": 2, None: 3, (1, "a"): 4, 1.5: 5, "a/b": torch.tensor(1), "": torch.tensor(2)},
            "sequences": [(), [], (1, [2]), {3}, frozenset({4})],
            "mappings": [OrderedDict(b=1, a=2), Counter({2: 1})],
            "numbers": [2**70, -0.0, float("nan"), float("-inf"), 1e-300, 1 + 2j, True],
            "texts": ["ü", "\ud800", b"\x00\xff", None],
            "of_torch": [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1")],
        },
    }


def _write(folder: Path, state: Mapping[str, Any], lent: tuple[str, ...] = ()) -> tuple[Path, PartReceipt]:
    """A part; tensors named in `lent` lie in an older checkpoint's part, of which a copy lies beside it."""
    store = Hdf5Store(folder)
    borrowed = {}
    if lent:
        older = store.write_part(OLDER, rank=0, state=state, attributes=ATTRIBUTES)
        lender = folder / "checkpoints" / CHECKPOINT / LENDER
        lender.parent.mkdir(parents=True)
        store.path_of(older).rename(lender)
        store.delete(OLDER)
        placed = store.head_of(replace(older, file=f"checkpoints/{CHECKPOINT}/{LENDER}")).placed
        borrowed = {
            each.dataset.name: Borrowed(LENDER, each.offset, each.checksum)
            for each in placed
            if each.dataset.name in lent
        }
    receipt = store.write_part(CHECKPOINT, rank=0, state=state, attributes=ATTRIBUTES, borrowed=borrowed)
    return store.path_of(receipt), receipt


def _vouched_for(path: Path, receipt: PartReceipt) -> PartReceipt:
    """A receipt for the file as it is now: what is wrong with it is not the checksum of its head."""
    head_bytes = HeadChecksum.parse(receipt.checksum).head_bytes
    head = path.read_bytes()[:head_bytes]
    return replace(receipt, bytes=path.stat().st_size, checksum=str(HeadChecksum(checksum_of(head), head_bytes)))


def _changed(path: Path, at: int, bits: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bits
    path.write_bytes(content)


def _flipped_tensor(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path, -1, 1)
    return receipt


def _flipped_structure(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path, path.read_bytes().index(b'"tensors":'), 1)
    return receipt


def _flipped_attribute(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path, path.read_bytes().index(b"Gr\\u00fc"), 1)
    return receipt


def _truncated(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(path.read_bytes()[:-100])
    return receipt


def _truncated_and_vouched_for(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(path.read_bytes()[:-100])
    return _vouched_for(path, receipt)


def _grown(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(path.read_bytes() + b"\0")
    return receipt


def _empty(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(b"")
    return receipt


def _missing(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.unlink()
    return receipt


def _other_rank(path: Path, receipt: PartReceipt) -> PartReceipt:
    store = Hdf5Store(path.parents[2])
    other = store.write_part(CHECKPOINT, rank=1, state=_STATE, attributes=ATTRIBUTES)
    store.path_of(other).replace(path)
    return receipt


def _older_generation(path: Path, receipt: PartReceipt) -> PartReceipt:
    Hdf5Store(path.parents[2]).write_part(CHECKPOINT, rank=0, state=_STATE | {"w": _STATE["w"] + 1}, attributes={})
    return receipt


def _payload_of_zeros(path: Path, receipt: PartReceipt) -> PartReceipt:
    """What a file system that lost the data but kept the size shows after a power failure."""
    head_bytes = HeadChecksum.parse(receipt.checksum).head_bytes
    content = path.read_bytes()
    path.write_bytes(content[:head_bytes] + bytes(len(content) - head_bytes))
    return receipt


def _rewritten(name: str, old: bytes, new: bytes) -> Spoiling:
    """`old` in a dataset of the head becomes `new`, and the receipt is for that."""

    def spoil(path: Path, receipt: PartReceipt) -> PartReceipt:
        with h5py.File(path, "r") as file:
            start, size = file[name].id.get_offset(), file[name].id.get_storage_size()
        content = path.read_bytes()
        there = content[start : start + size]
        assert old in there
        path.write_bytes(content[:start] + there.replace(old, new).rstrip().ljust(size) + content[start + size :])
        return _vouched_for(path, receipt)

    return spoil


def _placed_at(number: int, offset: int) -> Spoiling:
    def spoil(path: Path, receipt: PartReceipt) -> PartReceipt:
        with h5py.File(path, "r") as file:
            start = file["places"].id.get_offset()
        content = bytearray(path.read_bytes())
        struct.pack_into("<QQ", content, start, number, offset)
        path.write_bytes(content)
        return _vouched_for(path, receipt)

    return spoil


def _borrowing_from(name: str) -> Spoiling:
    return _rewritten("structure", json.dumps(LENDER).encode(), json.dumps(name).encode())


def _lender_gone(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.with_name(LENDER).unlink()
    return receipt


def _lender_short(path: Path, receipt: PartReceipt) -> PartReceipt:
    lender = path.with_name(LENDER)
    lender.write_bytes(lender.read_bytes()[:-1])
    return receipt


def _lender_altered(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path.with_name(LENDER), -1, 1)
    return receipt


def _not_hdf5(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path, 1, 1)
    return _vouched_for(path, receipt)


def _format_version(number: int) -> Spoiling:
    def spoil(path: Path, receipt: PartReceipt) -> PartReceipt:
        with h5py.File(path, "r+") as file:
            file.attrs.modify("format_version", number)
        return _vouched_for(path, receipt)

    return spoil


def _unknown_checksum(path: Path, receipt: PartReceipt) -> PartReceipt:
    return replace(receipt, checksum="blake9-256:00")


_STATE: dict[str, Any] = {"w": torch.arange(100.0)}

_TENSOR = b'["w","float32",[100]]'

WRONG: dict[str, Spoiling] = {
    "damaged/flipped_bit_in_tensor": _flipped_tensor,
    "damaged/flipped_bit_in_structure": _flipped_structure,
    "damaged/flipped_bit_in_attribute": _flipped_attribute,
    "damaged/last_100_bytes_missing": _truncated,
    "damaged/last_100_bytes_missing_receipt_agrees": _truncated_and_vouched_for,
    "damaged/one_byte_too_long": _grown,
    "damaged/empty_file": _empty,
    "damaged/missing_file": _missing,
    "damaged/part_of_another_rank": _other_rank,
    "damaged/older_generation": _older_generation,
    "damaged/payload_of_zeros": _payload_of_zeros,
    "damaged/not_hdf5": _not_hdf5,
    "damaged/structure_is_not_json": _rewritten("structure", b'"tensors":', b'"tensors";'),
    "damaged/structure_refers_beyond_the_table": _rewritten("structure", b'{"tensor":0}', b'{"tensor":9}'),
    "damaged/structure_has_more_tensors_than_the_tables": _rewritten("structure", _TENSOR, _TENSOR + b"," + _TENSOR),
    "damaged/structure_has_a_negative_shape": _rewritten("structure", b"[100]", b"[-10]"),
    "damaged/structure_has_a_shape_larger_than_the_file": _rewritten("structure", b"[100]", b"[100000]"),
    "damaged/attributes_are_not_json": _rewritten("attributes", b'"rank":', b'"rank";'),
    "damaged/rank_in_file_is_7": _rewritten("attributes", b'"rank":0', b'"rank":7'),
    "damaged/place_beyond_the_file": _placed_at(0, 2**40),
    "damaged/place_beyond_64_bits": _placed_at(0, 2**64 - 1),
    "damaged/place_in_the_head": _placed_at(0, 96),
    "damaged/place_in_a_file_that_is_not_named": _placed_at(1, 8192),
    "unsupported/format_version_99": _format_version(99),
    "unsupported/format_version_1": _format_version(1),
    "unsupported/dtype_float9": _rewritten("structure", b'"float32"', b'"float9"'),
    "unsupported/checksum_of_another_kind": _unknown_checksum,
}

WRONG_BORROWING: dict[str, Spoiling] = {
    "damaged/borrowed_file_missing": _lender_gone,
    "damaged/borrowed_file_one_byte_short": _lender_short,
    "damaged/flipped_bit_in_borrowed_tensor": _lender_altered,
    "damaged/borrowed_from_a_subfolder": _borrowing_from("sub/x.h5"),
    "damaged/borrowed_from_another_checkpoint": _borrowing_from(f"../{OLDER}/rank-00000.h5"),
    "damaged/borrowed_from_an_absolute_path": _borrowing_from("/etc/passwd"),
    "damaged/borrowed_from_the_folder_itself": _borrowing_from("."),
    "damaged/borrowed_from_a_hidden_file": _borrowing_from(".x.h5"),
    "damaged/borrowed_from_nothing": _borrowing_from(""),
    "damaged/borrowed_place_beyond_that_file": _placed_at(1, 2**40),
    "damaged/borrowed_place_beyond_64_bits": _placed_at(1, 2**64 - 1),
    "damaged/borrowed_from_a_file_number_out_of_range": _placed_at(2, 8192),
}


def make(top: Path) -> None:
    for name, state in states().items():
        folder = top / "must_load" / f"v{FORMAT_VERSION}" / name
        lent = ("frozen",) if name == "borrowed" else ()
        _keep(folder, _write(folder, state, lent)[1])
    for cases, lent in ((WRONG, ()), (WRONG_BORROWING, ("w",))):
        for name, spoil in cases.items():
            folder = top / "must_refuse" / f"v{FORMAT_VERSION}" / name
            path, receipt = _write(folder, _STATE, lent)
            _keep(folder, spoil(path, receipt))


def _keep(folder: Path, receipt: PartReceipt) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "receipt.json").write_text(json.dumps(asdict(receipt), indent=1) + "\n")


if __name__ == "__main__":
    for kind in ("must_load", "must_refuse"):
        shutil.rmtree(HERE / kind / f"v{FORMAT_VERSION}", ignore_errors=True)
    make(HERE)
