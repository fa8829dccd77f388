"""Ranks save and load states with DTensors, in many layouts: run by test_dcp.py under torchrun.

dcp_program.py FOLDER save      on 4 ranks: trains, saves in both ways, loads in other layouts
dcp_program.py FOLDER load      on any number of ranks: loads what was saved
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as torch_load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.state_dict_saver import save as torch_save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from slurm_resilience.checkpoint.distributed.assembly import put_together
from slurm_resilience.checkpoint.distributed.layout import local_of
from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.presence import SHARDS
from slurm_resilience.checkpoint.distributed.shard_notes import from_state, to_state
from slurm_resilience.checkpoint.distributed.shards import layouts_of, put_back, take_apart, why_not_alike
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointMismatch, CheckpointUnsupported, ConfigurationError
from slurm_resilience.integrations.dcp import HDF5StorageReader, HDF5StorageWriter, load, save


class Network(nn.Module):
    """Sizes that four ranks can't share evenly, beside ones that they can."""

    def __init__(self, odd: int) -> None:
        super().__init__()
        self.up = nn.Linear(odd, 16)
        self.down = nn.Linear(16, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, odd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(self.norm(self.down(torch.relu(self.up(x)))))
        return made


ODD = 7
Trained = tuple[nn.Module, torch.optim.Optimizer]


def fsdp(mesh: DeviceMesh, seed: int) -> Trained:
    torch.manual_seed(seed)
    network = Network(ODD)
    for layer in (network.up, network.down, network.out):
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    return network, torch.optim.AdamW(network.parameters(), lr=0.1)


def tensor_parallel_and_fsdp(mesh: DeviceMesh, seed: int) -> Trained:
    torch.manual_seed(seed)
    network = Network(ODD)
    parallelize_module(network, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(network, mesh=mesh["dp"])
    return network, torch.optim.AdamW(network.parameters(), lr=0.1)


def train(trained: Trained, steps: int) -> None:
    network, optimizer = trained
    for step in range(steps):
        torch.manual_seed(1000 + step)
        network(torch.randn(4, ODD)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(state: Any) -> Any:
    """With every DTensor whole. All ranks."""
    if isinstance(state, DTensor):
        return state.full_tensor().detach().clone()
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    return [whole(value) for value in state] if isinstance(state, list) else state


def check_same(a: Any, b: Any, path: str = "") -> None:
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), f"{path} differs"
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), f"{path}: {a.keys() ^ b.keys()}"
        for key, value in a.items():
            check_same(value, b[key], f"{path}/{key}")
    elif isinstance(a, list):
        for index, (value, other) in enumerate(zip(a, b, strict=True)):
            check_same(value, other, f"{path}/{index}")
    else:
        assert a == b, f"{path}: {a} is not {b}"


def state_of(trained: Trained) -> dict[str, Any]:
    return {"model": trained[0].state_dict(), "optimizer": trained[1].state_dict()}


def by_names(trained: Trained) -> dict[str, Any]:
    model, optimizer = get_state_dict(*trained)
    return {"model": model, "optimizer": optimizer, "step": 3, "facts": {"lr": [0.1, None], "name": "x"}}


def keep(folder: Path, name: str, state: dict[str, Any]) -> None:
    """As training does: every rank writes its part; the receipts are the manifest's business."""
    plain, notes = take_apart(state)
    receipt = Hdf5Store(folder).write_part(
        name, rank=dist.get_rank(), state={**plain, SHARDS: to_state(notes)}, attributes={}
    )
    receipts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(receipts, dataclasses.asdict(receipt))
    if dist.get_rank() == 0:
        (folder / f"{name}.json").write_text(json.dumps(receipts))
    dist.barrier()


def receipts_of(folder: Path, name: str) -> list[PartReceipt]:
    return [PartReceipt(**each) for each in json.loads((folder / f"{name}.json").read_text())]


def check_put_together(folder: Path, name: str, trained: Trained, expected: Any) -> None:
    """Into a model that is alive and an optimizer that has no state yet."""
    alive = layouts_of(state_of(trained), optimizers={"optimizer": trained[1]})
    shelf = PartsShelf(Hdf5Store(folder), receipts_of(folder, name))
    state = put_together(shelf, shelf.skeleton(0), alive, nearest=dist.get_rank())
    trained[0].load_state_dict(state["model"])
    trained[1].load_state_dict(state["optimizer"])
    check_same(whole(state_of(trained)), expected)
    train(trained, 1)  # and it goes on


def check_put_back(folder: Path, name: str, trained: Trained, expected: Any) -> None:
    state = Hdf5Store(folder).read_part(receipts_of(folder, name)[dist.get_rank()])
    notes = from_state(state.pop(SHARDS))
    alive = layouts_of(state_of(trained), optimizers={"optimizer": trained[1]})
    assert why_not_alike(notes, alive) is None, why_not_alike(notes, alive)
    state = put_back(state, notes, alive)
    trained[0].load_state_dict(state["model"])
    trained[1].load_state_dict(state["optimizer"])
    check_same(whole(state_of(trained)), expected)


def check_dcp(folder: Path, trained: Trained, expected: Any) -> None:
    state = by_names(trained)
    state["step"], state["facts"] = 0, {"lr": [0, 0], "name": ""}
    load(state, folder)
    set_state_dict(*trained, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    check_same(whole(by_names(trained)), expected)
    assert (state["step"], state["facts"]) == (3, {"lr": [0.1, None], "name": "x"})


def check_damage(folder: Path, mesh: DeviceMesh) -> None:
    """One bit of rank 2's shard: all ranks hear of it, and none of the shard arrives."""
    save({"w": distribute_tensor(torch.ones(8, 1024), mesh, [Shard(0)])}, folder)
    if dist.get_rank() == 0:
        damaged = next((folder / "checkpoints").glob("*/rank-00002.h5"))
        content = bytearray(damaged.read_bytes())
        content[-100] ^= 1
        damaged.write_bytes(content)
    dist.barrier()
    target = distribute_tensor(torch.zeros(1024, 8), mesh, [Shard(0)])
    whole_target = {"w": distribute_tensor(torch.zeros(8, 1024), mesh, [Shard(1)])}
    with pytest.raises(CheckpointDamaged, match=r"rank-00002\.h5: tensor chunks/w/4,0 has the checksum"):
        load(dict(whole_target), folder)
    with pytest.raises(CheckpointMismatch, match="Size mismatch"):
        load({"w": target}, folder)
    with pytest.raises(CheckpointMismatch, match="Missing key"):
        load({"v": target}, folder)
    assert not local_of(whole_target["w"])[4:6].any()
    dist.barrier()


def check_refusals(folder: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match=r"values/odd is a builtins\.object"):
        save({"odd": object() if dist.get_rank() == 0 else 1}, folder)
    with pytest.raises(ConfigurationError, match="holds a checkpoint already"):
        save({"odd": 1}, folder, overwrite=False)


def check_saved_again(folder: Path, mesh: DeviceMesh) -> None:
    """Over an older checkpoint, with torch's plan caching, and beside the training."""
    for turn in range(3):
        state = {"w": distribute_tensor(torch.full((5, 3), float(turn)), mesh, [Shard(0)]), "same": torch.ones(9)}
        torch_save(
            state, storage_writer=HDF5StorageWriter(folder), planner=DefaultSavePlanner(enable_plan_caching=True)
        )
        assert len(list((folder / "checkpoints").iterdir())) == 1
        found = {"w": torch.zeros(5, 3), "same": torch.zeros(9)}
        torch_load(found, storage_reader=HDF5StorageReader(folder))
        assert found["w"].eq(turn).all()
        assert found["same"].all()
    before = {"w": distribute_tensor(torch.full((5, 3), 9.0), mesh, [Shard(0)])}
    going_on: Any = async_save(before, storage_writer=HDF5StorageWriter(folder))
    going_on.result()
    found = {"w": torch.zeros(5, 3)}
    load(found, folder)
    assert found["w"].eq(9).all()
    unmade = {"w": distribute_tensor(torch.empty(5, 3, device="meta"), mesh, [Shard(1)])}
    load(unmade, folder)
    assert local_of(unmade["w"]).eq(9).all()


def check_copies_are_written_once(folder: Path) -> None:
    save({f"same{number}": torch.full((1000,), float(number)) for number in range(8)}, folder)
    tensors = json.loads((folder / "checkpoint.json").read_text())["content"]["tensors"]
    assert all(len(tensor["chunks"]) == 1 for tensor in tensors.values())
    ranks = {chunk[2] for tensor in tensors.values() for chunk in tensor["chunks"]}
    assert ranks == set(range(dist.get_world_size()))
    stage = dist.get_rank()  # different keys on every rank, as pipeline stages have
    save({f"stage{stage}": torch.full((3,), float(stage))}, folder)
    other = (stage + 1) % dist.get_world_size()
    found = {f"stage{other}": torch.zeros(3)}
    load(found, folder)
    assert found[f"stage{other}"].eq(other).all()


def saving(folder: Path) -> None:
    line = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for name, trained, again, other in (
        ("line", fsdp(line, 1), lambda: fsdp(line, 2), lambda: tensor_parallel_and_fsdp(square, 3)),
        (
            "square",
            tensor_parallel_and_fsdp(square, 1),
            lambda: tensor_parallel_and_fsdp(square, 2),
            lambda: fsdp(line, 3),
        ),
    ):
        train(trained, 2)
        by_number, named = whole(state_of(trained)), whole(by_names(trained))
        keep(folder, name, state_of(trained))
        save(by_names(trained), folder / f"{name}.dcp")
        if dist.get_rank() == 0:
            torch.save((by_number, named), folder / f"{name}.pt")
        check_put_back(folder, name, again(), by_number)
        check_put_together(folder, name, again(), by_number)
        check_put_together(folder, name, other(), by_number)
        check_dcp(folder / f"{name}.dcp", other(), named)
    check_damage(folder / "damaged", line)
    check_saved_again(folder / "again", line)
    check_copies_are_written_once(folder / "once")
    check_refusals(folder / "once")


def loading(folder: Path) -> None:
    world_size = dist.get_world_size()
    line = init_device_mesh("cpu", (world_size,), mesh_dim_names=("dp",))
    for name in ("line", "square"):
        by_number, named = torch.load(folder / f"{name}.pt", weights_only=True)
        check_put_together(folder, name, fsdp(line, 5), by_number)
        check_dcp(folder / f"{name}.dcp", fsdp(line, 5), named)


def main(folder: Path, what: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        saving(folder) if what == "save" else loading(folder)
    except BaseException:  # noqa: BLE001 said, and then gone at once, for whatever reason
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    dist.barrier()
    sys.stdout.write(f"{what} is right\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
