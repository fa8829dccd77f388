"""Parts "write" and "stop": from the state in memory to the last fsync."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.checkpoint import ours, peers
from benchmarks.checkpoint.machine import bytes_on_disk, cpu_s, empty, page_cache_bytes, seconds
from benchmarks.checkpoint.raw import warm_memory, write_raw
from benchmarks.checkpoint.ready_memory import ReadyMemory
from benchmarks.checkpoint.rounds import Measured, Method, Part, measure
from benchmarks.checkpoint.state import State, bytes_in
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.snapshot.taken import Taken

Write = Callable[[Path], object]

RAW = "raw, O_DIRECT"
ARENA = "ours, from the snapshot"
SYNCHRONOUS = "ours, synchronous"
SAFETENSORS = "safetensors"
TORCH = "torch.save"
DCP_TWO = "DCP, 2 threads"


def measure_write(state: State, folder: Path, rounds: int) -> Part:
    size_bytes = bytes_in(state)
    memory = warm_memory(size_bytes)
    with _snapshot_of(state) as taken:
        ways: dict[str, Write] = {
            RAW: lambda to: write_raw(memory, to),
            ARENA: lambda to: ours.write_arena(taken, to),
            SYNCHRONOUS: _synchronous(state, folder),
            SAFETENSORS: lambda to: peers.save_safetensors(state, to),
            TORCH: lambda to: peers.save_torch(state, to),
            "torch.save without crc32": lambda to: peers.save_torch_without_crc32(state, to),
            DCP_TWO: lambda to: peers.save_dcp(state, to, threads=2),
            "DCP, 1 thread": lambda to: peers.save_dcp(state, to, threads=1),
            "h5py": lambda to: peers.save_h5py(state, to, checksums=False),
            "h5py, fletcher32": lambda to: peers.save_h5py(state, to, checksums=True),
            "torchsnapshot": lambda to: peers.save_torchsnapshot(state, to),
        }
        with ReadyMemory(2 * size_bytes) as ready:
            return measure("write", _methods(ways, folder, size_bytes, ready), rounds)


def measure_stop(state: State, folder: Path, rounds: int) -> Part:
    """The round before the first is the save that a run has had before it is stopped: the plan is made."""
    size_bytes = bytes_in(state)
    memory = warm_memory(size_bytes)
    ways: dict[str, Write] = {RAW: lambda to: write_raw(memory, to), SYNCHRONOUS: _synchronous(state, folder)}
    with ReadyMemory(2 * size_bytes) as ready:
        return measure("stop", _methods(ways, folder, size_bytes, ready), rounds)


def _synchronous(state: State, folder: Path) -> Write:
    store = Hdf5Store(folder)
    return lambda _: ours.write_part(store, state)


def _methods(ways: dict[str, Write], folder: Path, size_bytes: int, ready: ReadyMemory) -> dict[str, Method]:
    return {name: functools.partial(_durably, way, folder, size_bytes, ready) for name, way in ways.items()}


def _durably(write: Write, folder: Path, size_bytes: int, ready: ReadyMemory) -> Measured:
    empty(folder)
    with ready.lent():
        cpu_before_s, cache_before_bytes = cpu_s(), page_cache_bytes()
        took_s = seconds(lambda: write(folder))
        found = {
            "took_s": took_s,
            "gb_per_s": size_bytes / took_s / 1e9,
            "cpu_s": cpu_s() - cpu_before_s,
            "page_cache_gb": (page_cache_bytes() - cache_before_bytes) / 1e9,
            "disk_gb": bytes_on_disk(folder) / 1e9,
        }
    empty(folder)
    return found


@contextlib.contextmanager
def _snapshot_of(state: State) -> Iterator[Taken]:
    snapshot = Snapshot(rank=0)
    try:
        taken = snapshot.take(ours.CHECKPOINT, state, ours.FACTS)
        taken.wait()
        yield taken
    finally:
        snapshot.close()
