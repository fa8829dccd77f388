"""Makes the corpus in this folder: `python -m tests.checkpoints.make`, from the top of the repository.

    must_load/v1/<what it holds>/                  run directory with one part, and receipt.json
    must_refuse/v1/<damaged|unsupported>/<what is wrong>/

Every format version keeps its own folder for ever: files of an old version are never made again, only the newest
version's may be. They pin the format: a reader that can't read them any more, or takes a wrong one, is a wrong reader.
"""

from __future__ import annotations

import json
import shutil
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
from slurm_resilience.checkpoint.store import PartReceipt

HERE = Path(__file__).parent
CHECKPOINT = "step-0000000120.a3"
ATTRIBUTES: dict[str, Any] = {"step": 120, "attempt": 3, "world_size": 2, "note": "Grüße", "nothing": None}


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


def _write(folder: Path, state: Mapping[str, Any]) -> tuple[Path, PartReceipt]:
    store = Hdf5Store(folder)
    receipt = store.write_part(CHECKPOINT, rank=0, state=state, attributes=ATTRIBUTES)
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
    _changed(path, path.read_bytes().index("Grüße".encode()), 1)
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


def _renamed_in_structure(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(path.read_bytes().replace(b'"tensors":["w"]', b'"tensors":["v"]'))
    return _vouched_for(path, receipt)


def _row_beyond_the_table(path: Path, receipt: PartReceipt) -> PartReceipt:
    path.write_bytes(path.read_bytes().replace(b'{"tensor":0}', b'{"tensor":9}'))
    return _vouched_for(path, receipt)


def _not_hdf5(path: Path, receipt: PartReceipt) -> PartReceipt:
    _changed(path, 1, 1)
    return _vouched_for(path, receipt)


def _attribute_overwritten(name: str, value: object) -> Callable[[Path, PartReceipt], PartReceipt]:
    def make(path: Path, receipt: PartReceipt) -> PartReceipt:
        with h5py.File(path, "r+") as file:
            holder = file if name in file.attrs else file["state/w"]
            holder.attrs.modify(name, value)
        return _vouched_for(path, receipt)

    return make


def _unknown_checksum(path: Path, receipt: PartReceipt) -> PartReceipt:
    return replace(receipt, checksum="blake9-256:00")


_STATE: dict[str, Any] = {"w": torch.arange(100.0)}

WRONG: dict[str, Callable[[Path, PartReceipt], PartReceipt]] = {
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
    "damaged/structure_names_a_tensor_that_is_not_there": _renamed_in_structure,
    "damaged/structure_refers_beyond_the_table": _row_beyond_the_table,
    "damaged/not_hdf5": _not_hdf5,
    "damaged/rank_in_file_is_7": _attribute_overwritten("rank", 7),
    "unsupported/format_version_99": _attribute_overwritten("format_version", 99),
    "unsupported/dtype_float9": _attribute_overwritten("dtype", np.bytes_(b"float9")),
    "unsupported/checksum_of_another_kind": _unknown_checksum,
}


def make(top: Path) -> None:
    for name, state in states().items():
        folder = top / "must_load" / f"v{FORMAT_VERSION}" / name
        _keep(folder, _write(folder, state)[1])
    for name, spoil in WRONG.items():
        folder = top / "must_refuse" / f"v{FORMAT_VERSION}" / name
        path, receipt = _write(folder, _STATE)
        _keep(folder, spoil(path, receipt))


def _keep(folder: Path, receipt: PartReceipt) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "receipt.json").write_text(json.dumps(asdict(receipt), indent=1) + "\n")


if __name__ == "__main__":
    for kind in ("must_load", "must_refuse"):
        shutil.rmtree(HERE / kind / f"v{FORMAT_VERSION}", ignore_errors=True)
    make(HERE)
