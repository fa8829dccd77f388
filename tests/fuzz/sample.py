"""Small parts to be spoilt, each with what it holds."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt

CHECKPOINT = "step-0000000120.a3"
OLDER = "step-0000000100.a3"
LENDER = f"rank-00000.from-{OLDER}.h5"
ATTRIBUTES: dict[str, Any] = {"step": 120, "attempt": 3, "note": "Grüße", "nothing": None, "loss": 0.1}
TABLES = ("structure", "attributes", "places", "checksums")


@dataclass(frozen=True, slots=True)
class Table:
    """One of the four datasets of the head that a reader goes by."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    state: dict[str, Any]
    receipt: PartReceipt
    files: dict[str, bytes]
    """All files of the checkpoint's folder, by name."""
    tables: dict[str, Table]

    @property
    def part(self) -> str:
        return Path(self.receipt.file).name

    @property
    def content(self) -> bytes:
        return self.files[self.part]

    @property
    def head_bytes(self) -> int:
        return int(self.receipt.checksum.rsplit(":", 1)[1])

    def document(self, table: str) -> Any:
        place = self.tables[table]
        return json.loads(self.content[place.offset : place.offset + place.bytes])


def vouched_for(receipt: PartReceipt, content: bytes, head_bytes: int) -> PartReceipt:
    """A receipt for the file as it is now: the checksum of its head is not what is wrong with it."""
    head = content[:head_bytes]
    return replace(receipt, bytes=len(content), checksum=f"xxh3-128:{checksum_of(head).hex()}:{head_bytes}")


def states() -> dict[str, dict[str, Any]]:
    tied = torch.arange(6.0).reshape(2, 3)
    dtypes = ("bool", "uint8", "int64", "bfloat16", "float16", "float64", "complex64", "float8_e4m3fn")
    return {
        "everything": {
            "dtypes": {name: torch.arange(40).to(getattr(torch, name)) for name in dtypes},
            "tied": [tied, tied],
            "shapes": (torch.tensor(1.5), torch.empty(0, 3), torch.zeros(2, 1, 3)),
            "arrays": {"native": np.arange(20), "big": np.arange(3, dtype=">f4"), "scalar": np.float32(1.5)},
            "keys": {0: 1, "0": 2, None: 3, (1, "a"): 4, 1.5: 5},
            "values": [2**70, -0.0, float("inf"), 1 + 2j, b"\x00\xff", "ü", {3}, OrderedDict(b=1), Counter("a")],
            "torch": [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1")],
            "learning": torch.nn.Parameter(torch.ones(3)),
        },
        "borrowing": {"frozen": torch.arange(300.0), "again": tied, "learning": torch.ones(20), "step": 3},
        "nothing": {},
        "large": {"w": torch.arange(400_000.0), "m": torch.zeros(40_000, dtype=torch.bfloat16), "step": 7},
    }


def write_samples(root: Path) -> list[Sample]:
    """One run directory each, below `root`."""
    return [_write(root / name, name, state) for name, state in states().items()]


def _write(folder: Path, name: str, state: dict[str, Any]) -> Sample:
    store = Hdf5Store(folder)
    borrowed = _lent(store, state) if name == "borrowing" else {}
    receipt = store.write_part(CHECKPOINT, rank=0, state=state, attributes=ATTRIBUTES, borrowed=borrowed)
    path = store.path_of(receipt)
    with h5py.File(path, "r") as file:
        tables = {table: Table(file[table].id.get_offset() or 0, file[table].id.get_storage_size()) for table in TABLES}
    files = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    return Sample(name, state, receipt, files, tables)


def _lent(store: Hdf5Store, state: dict[str, Any]) -> dict[str, Borrowed]:
    """The first two tensors lie in an older checkpoint's part, which has a second name beside the new part."""
    older = store.write_part(OLDER, rank=0, state=state, attributes=ATTRIBUTES)
    lender = store.path_of(older).parents[1] / CHECKPOINT / LENDER
    lender.parent.mkdir(parents=True)
    lender.write_bytes(store.path_of(older).read_bytes())
    placed = store.head_of(older).placed
    store.delete(OLDER)
    return {each.dataset.name: Borrowed(LENDER, each.offset, each.checksum) for each in placed[:2]}
