"""Shards in real files: nothing unverified reaches a tensor that is alive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Shard

from slurm_resilience.checkpoint.distributed.assembly import put_together
from slurm_resilience.checkpoint.distributed.layout import local_of
from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.presence import SHARDS
from slurm_resilience.checkpoint.distributed.shard_notes import to_state
from slurm_resilience.checkpoint.distributed.shards import Layouts, layouts_of, take_apart
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointMismatch
from tests.unit.checkpoint.distributed.one_of_many import cut, rank_of

WHOLE = torch.arange(12 * 40, dtype=torch.bfloat16).reshape(12, 40)


def written(store: Hdf5Store, ranks: int) -> list[PartReceipt]:
    receipts = []
    for rank in range(ranks):
        with rank_of(rank, ranks):
            shard = cut(WHOLE, (ranks,), [Shard(0)])
            state: dict[str, Any] = {"a/b": {"weight": shard, "tied": shard, "array": np.arange(3)}, "step": 5}
            plain, notes = take_apart(state)
        receipts.append(
            store.write_part("c", rank=rank, state={**plain, SHARDS: to_state(notes)}, attributes={"step": 5})
        )
    return receipts


def test_four_parts_become_one_whole_state(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path)
    shelf = PartsShelf(store, written(store, 4))
    state = put_together(shelf, shelf.skeleton(0), Layouts())
    assert torch.equal(state["a/b"]["weight"], WHOLE)
    assert state["a/b"]["tied"].data_ptr() == state["a/b"]["weight"].data_ptr()
    assert state["a/b"]["array"].tolist() == [0, 1, 2]
    assert state["step"] == 5


def test_a_damaged_shard_is_named_and_none_of_its_bytes_arrive(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path)
    receipts = written(store, 4)
    damaged = store.path_of(receipts[2])
    placed = next(each for each in store.head_of(receipts[2]).placed if each.dataset.name == "a%2Fb/weight")
    with damaged.open("r+b") as file:
        file.seek(placed.offset + 7)
        file.write(b"\xee")
    shelf = PartsShelf(store, receipts)
    with rank_of(1, 2):
        alive = cut(torch.zeros_like(WHOLE), (2,), [Shard(0)])
        with pytest.raises(CheckpointDamaged, match=r"rank-00002\.h5: tensor a%2Fb/weight has the checksum"):
            put_together(shelf, shelf.skeleton(0), layouts_of({"a/b": {"weight": alive}}))
        assert not local_of(alive)[:3].any()
    with rank_of(0, 2):  # needs rows of parts 0 and 1 only
        alive = cut(torch.zeros_like(WHOLE), (2,), [Shard(0)])
        put_together(
            shelf, {"a/b": {"weight": shelf.skeleton(0)["a/b"]["weight"]}}, layouts_of({"a/b": {"weight": alive}})
        )
        assert torch.equal(local_of(alive), WHOLE[:6])


def test_a_missing_part_is_damage(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path)
    receipts = written(store, 2)
    store.path_of(receipts[1]).unlink()
    with pytest.raises(CheckpointDamaged, match=r"rank-00001\.h5: the file is missing"):
        PartsShelf(store, receipts).entries()


def test_a_stage_finds_the_part_of_its_like(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path)
    receipts = [
        store.write_part("c", rank=rank, state={"model": {f"stage{rank // 2}": torch.zeros(2)}}, attributes={})
        for rank in range(4)
    ]
    shelf = PartsShelf(store, receipts)
    second = layouts_of({"model": {"stage1": torch.zeros(2)}})
    assert [shelf.rank_with(second, first=rank) for rank in (0, 3)] == [2, 3]
    with pytest.raises(CheckpointMismatch, match="model/stage2 is missing"):
        shelf.rank_with(layouts_of({"model": {"stage2": torch.zeros(2)}}), first=0)
