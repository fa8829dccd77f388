"""Saving and loading with other libraries, durably: what is compared with. All by their own documented calls."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch

from benchmarks.checkpoint.machine import sync_all
from benchmarks.checkpoint.rounds import NotHere
from benchmarks.checkpoint.state import State, flat_state, fresh_like

_CHUNK_BYTES = 1 << 20
"""HDF5's checksums need chunks. These are faster than larger ones."""


def optional(name: str) -> Any:
    """A module that need not be installed. Raises NotHere."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotHere(f"not installed ({error})") from error


def save_torch(state: State, folder: Path) -> None:
    torch.save(state, folder / "state.pt")
    sync_all(folder)


def save_torch_without_crc32(state: State, folder: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        save_torch(state, folder)
    finally:
        torch.serialization.set_crc32_options(True)


def load_torch(path: Path) -> Any:
    return torch.load(path / "state.pt", weights_only=True)


def load_torch_mapped(path: Path) -> Any:
    return _copied(torch.load(path / "state.pt", weights_only=True, mmap=True))


def save_safetensors(state: State, folder: Path) -> None:
    optional("safetensors.torch").save_file(flat_state(state), folder / "state.safetensors")
    sync_all(folder)


def load_safetensors(path: Path) -> Any:
    """It gives views of the file: only a copy is memory that a training can have."""
    return _copied(optional("safetensors.torch").load_file(path / "state.safetensors"))


def save_dcp(state: State, folder: Path, *, threads: int, alone: bool = True) -> None:
    """torch.distributed.checkpoint. `alone`: this rank by itself."""
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    # It syncs its files, but no folder.
    save(state, storage_writer=FileSystemWriter(folder / "dcp", thread_count=threads), no_dist=alone)
    if alone:
        sync_all(folder)


def load_dcp(path: Path, like: State) -> Any:
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    state = fresh_like(like)
    load(state, storage_reader=FileSystemReader(path / "dcp"), no_dist=True)
    return state


def save_h5py(state: State, folder: Path, *, checksums: bool) -> None:
    """As who doesn't know HDF5's settings does it; `checksums` are HDF5's own, Fletcher-32."""
    import h5py

    with h5py.File(folder / "state.h5", "w") as file:
        for name, tensor in flat_state(state).items():
            array = _as_numpy(tensor).reshape(-1)
            chunks = min(array.size, _CHUNK_BYTES // array.itemsize)
            file.create_dataset(name, data=array, **({"chunks": (chunks,), "fletcher32": True} if checksums else {}))
    sync_all(folder)


def load_h5py(path: Path) -> Any:
    import h5py

    with h5py.File(path / "state.h5", "r") as file:
        return {name: torch.from_numpy(dataset[()]) for name, dataset in file.items()}


def save_torchsnapshot(state: State, folder: Path) -> None:
    library = optional("torchsnapshot")
    library.Snapshot.take(path=str(folder / "snapshot"), app_state={"state": library.StateDict(**flat_state(state))})
    sync_all(folder)


def _as_numpy(tensor: torch.Tensor) -> Any:
    return (tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor).numpy()


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value
