"""Part "load": from a file to tensors in fresh memory, with the page cache empty of it, and full of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checkpoint import ours, peers
from benchmarks.checkpoint.machine import cpu_s, empty, forget, remember, seconds
from benchmarks.checkpoint.raw import read_raw, warm_memory, write_raw
from benchmarks.checkpoint.ready_memory import ReadyMemory
from benchmarks.checkpoint.rounds import Measured, Method, Part, measure
from benchmarks.checkpoint.state import State, bytes_in
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt

OURS = "ours, verified"
SAFETENSORS = "safetensors, copied"
TORCH = "torch.load"
DCP = "DCP"
RAW_DIRECT = "raw, O_DIRECT"
RAW_BUFFERED = "raw, buffered"


@dataclass(frozen=True)
class _Way:
    save: Callable[[Path], object]
    load: Callable[[Path], object]
    saved_as: str
    """Ways with the same are measured on one file."""


class _Ours:
    """What was saved can be loaded with its receipt only."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._receipt: PartReceipt | None = None

    def save(self, folder: Path) -> None:
        self._receipt = ours.write_part(Hdf5Store(folder), self._state)

    def load(self, folder: Path) -> object:
        assert self._receipt is not None, "it was saved"
        return ours.read_part(folder, self._receipt)


def measure_load(state: State, folder: Path, rounds: int) -> dict[str, Part]:
    """By whether the page cache has the file: "load cold" and "load warm"."""
    size_bytes = bytes_in(state)
    memory = warm_memory(size_bytes)
    empty(folder)
    store = _Ours(state)
    ways = {
        OURS: _Way(store.save, store.load, "ours"),
        RAW_DIRECT: _Way(lambda to: write_raw(memory, to), lambda path: read_raw(path, memory, directly=True), "raw"),
        RAW_BUFFERED: _Way(
            lambda to: write_raw(memory, to), lambda path: read_raw(path, memory, directly=False), "raw"
        ),
        TORCH: _Way(lambda to: peers.save_torch(state, to), peers.load_torch, "torch"),
        "torch.load, mmap, copied": _Way(lambda to: peers.save_torch(state, to), peers.load_torch_mapped, "torch"),
        SAFETENSORS: _Way(lambda to: peers.save_safetensors(state, to), peers.load_safetensors, "safetensors"),
        DCP: _Way(lambda to: peers.save_dcp(state, to, threads=1), lambda path: peers.load_dcp(path, state), "dcp"),
        "h5py": _Way(lambda to: peers.save_h5py(state, to, checksums=False), peers.load_h5py, "h5py"),
    }
    parts = {}
    with ReadyMemory(2 * size_bytes) as ready:
        for how, prepare in (("cold", forget), ("warm", remember)):
            methods: dict[str, Method] = {
                name: functools.partial(_loaded, way, folder, size_bytes, prepare, ready) for name, way in ways.items()
            }
            parts[f"load {how}"] = measure(f"load {how}", methods, rounds)
    empty(folder)
    return parts


def _loaded(way: _Way, folder: Path, size_bytes: int, prepare: Callable[[Path], None], ready: ReadyMemory) -> Measured:
    path = folder / way.saved_as
    if not path.is_dir():
        path.mkdir()
        way.save(path)
    prepare(path)
    with ready.lent():
        cpu_before_s = cpu_s()
        took_s = seconds(lambda: way.load(path))
        found = {"took_s": took_s, "gb_per_s": size_bytes / took_s / 1e9, "cpu_s": cpu_s() - cpu_before_s}
    forget(path)  # the page cache is to hold no other file when the next one is measured
    return found
