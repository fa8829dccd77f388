"""States with DTensors come back bit for bit, whatever they were cut like and are cut like now."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from slurm_resilience.checkpoint.distributed.assembly import put_together
from slurm_resilience.checkpoint.distributed.layout import DTensor, local_of
from slurm_resilience.checkpoint.distributed.shard_notes import from_state, to_state
from slurm_resilience.checkpoint.distributed.shards import Layouts, layouts_of, put_back, take_apart, why_not_alike
from slurm_resilience.checkpoint.distributed.shelf import Leaf, differing
from slurm_resilience.errors import CheckpointMismatch, CheckpointUnsupported
from tests.unit.checkpoint.distributed.one_of_many import MemoryShelf, cut, rank_of


def kept(whole: torch.Tensor, mesh_shape: Sequence[int], placements: Sequence[Placement]) -> MemoryShelf:
    shelf = MemoryShelf()
    for rank in range(math.prod(mesh_shape)):
        with rank_of(rank, math.prod(mesh_shape)):
            plain, notes = take_apart({"model": {"weight": cut(whole, mesh_shape, placements)}})
        notes = from_state(json.loads(json.dumps(to_state(notes))))
        shelf.keep(rank, plain, notes)
    return shelf


@st.composite
def layouts(draw: st.DrawFn, shape: list[int]) -> tuple[list[int], list[Placement]]:
    mesh_shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    shard = st.builds(Shard, st.integers(0, len(shape) - 1))
    placements: list[Any] = [draw(st.one_of(st.just(Replicate()), shard)) for _ in mesh_shape]
    first, last = placements[0], placements[-1]
    even = isinstance(first, Shard) and shape[first.dim] % math.prod(mesh_shape) == 0
    if len(placements) == 2 and isinstance(first, Shard) and first == last and even and draw(st.booleans()):
        placements[0] = _StridedShard(first.dim, split_factor=mesh_shape[1])
    return mesh_shape, placements


@st.composite
def changes_of_layout(draw: st.DrawFn) -> tuple[list[int], Any, Any]:
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    return shape, draw(layouts(shape)), draw(layouts(shape))


@settings(max_examples=60, deadline=None)
@given(changes_of_layout())
def test_any_layout_is_filled_from_any_other(case):
    shape, (mesh_before, before), (mesh_now, now) = case
    whole = torch.randn(shape)
    shelf = kept(whole, mesh_before, before)
    for rank in range(math.prod(mesh_now)):
        with rank_of(rank, math.prod(mesh_now)):
            expected = cut(whole, mesh_now, now)
            alive = cut(torch.zeros(shape), mesh_now, now)
            target = {"model": {"weight": alive}}
            state = put_together(shelf, shelf.skeletons[0], layouts_of(target), nearest=rank)
            assert state["model"]["weight"] is alive
            assert torch.equal(local_of(alive), local_of(expected))


@settings(max_examples=30, deadline=None)
@given(changes_of_layout())
def test_whole_tensors_are_filled_from_shards_and_shards_from_whole_tensors(case):
    shape, (mesh_shape, placements), _ = case
    whole = torch.randn(shape)
    shelf = kept(whole, mesh_shape, placements)
    state = put_together(shelf, shelf.skeletons[0], Layouts())
    assert torch.equal(state["model"]["weight"], whole)
    plain = MemoryShelf()
    plain.keep(0, {"weight": whole}, {})
    with rank_of(0, math.prod(mesh_shape)):
        alive = cut(torch.zeros(shape), mesh_shape, placements)
        put_together(plain, plain.skeletons[0], layouts_of({"weight": alive}))
        assert torch.equal(local_of(alive), local_of(cut(whole, mesh_shape, placements)))


def test_an_uneven_strided_cut_can_only_be_loaded_as_it_lay() -> None:
    strided = [_StridedShard(0, split_factor=2), Shard(0)]
    shelf = kept(torch.randn(10), (2, 2), strided)
    with pytest.raises(CheckpointMismatch, match="model/weight was cut unevenly in strides"):
        put_together(shelf, shelf.skeletons[0], Layouts())
    plain = MemoryShelf()
    plain.keep(0, {"weight": torch.randn(10)}, {})
    with rank_of(0, 4):
        alive = layouts_of({"weight": cut(torch.zeros(10), (2, 2), strided)})
        with pytest.raises(CheckpointMismatch, match="weight is cut unevenly in strides now"):
            put_together(plain, plain.skeletons[0], alive)


def test_the_same_layout_takes_its_shards_back_without_a_copy() -> None:
    with rank_of(1, 4):
        weight = cut(torch.randn(10, 3), (2, 2), [_StridedShard(0, split_factor=2), Shard(0)], ("dp", "tp"))
        state: dict[str, Any] = {"model": OrderedDict(weight=weight, step=torch.tensor(3)), "epoch": 2}
        plain, notes = take_apart(state)
        assert type(plain["model"]) is OrderedDict
        assert type(plain["model"]["weight"]) is torch.Tensor
        assert plain["model"]["weight"].data_ptr() == local_of(weight).data_ptr()
        assert plain["model"]["step"] is state["model"]["step"]
        assert notes["model/weight"].pieces is None  # 10 rows in 4 strides: nobody can say which these are
        assert why_not_alike(notes, layouts_of(state)) is None
        back = put_back(plain, notes, layouts_of(state))
        assert local_of(back["model"]["weight"]).data_ptr() == local_of(weight).data_ptr()
        assert back["model"]["weight"].placements == weight.placements
        assert back["model"]["weight"].shape == weight.shape


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (((4,), [Shard(1)]), "lies otherwise"),
        (((4,), [Replicate()]), "lies otherwise"),
        (((2, 2), [Shard(0), Replicate()]), "lies otherwise"),
        (None, "is whole, and was cut"),
    ],
)
def test_another_layout_is_noticed_and_named(now: Any, why: str) -> None:
    whole = torch.randn(8, 4)
    with rank_of(0, 4):
        _, notes = take_apart({"weight": cut(whole, (4,), [Shard(0)])})
        alive = {"weight": whole if now is None else cut(whole, *now)}
        said = why_not_alike(notes, layouts_of(alive))
        assert said is not None
        assert said.startswith("weight ")
        assert why in said
        assert "cut into shards, and was not" in (
            why_not_alike({}, layouts_of({"weight": cut(whole, (4,), [Shard(0)])})) or ""
        )


def test_a_fresh_optimizers_moments_lie_like_its_parameters() -> None:
    shelf = MemoryShelf()
    moment = torch.randn(6, 5)
    for rank in range(2):
        with rank_of(rank, 2):
            parameter = torch.nn.Parameter(cut(torch.randn(6, 5), (2,), [Shard(0)]))
            optimizer = torch.optim.AdamW([parameter], lr=0.5)
            kept_state = {
                0: {
                    "step": torch.tensor(7.0),
                    "exp_avg": cut(moment, (2,), [Shard(0)]),
                    "exp_avg_sq": cut(moment, (2,), [Shard(0)]),
                }
            }
            state = {"optimizer": {"state": kept_state, "param_groups": optimizer.state_dict()["param_groups"]}}
            shelf.keep(rank, *take_apart(state))
    with rank_of(2, 3):
        parameter = torch.nn.Parameter(cut(torch.randn(6, 5), (3,), [Shard(1)]))
        optimizer = torch.optim.AdamW([parameter], lr=0.1)
        alive = layouts_of({"optimizer": optimizer.state_dict()}, optimizers={"optimizer": optimizer})
        loaded = put_together(shelf, shelf.skeletons[0], alive)
        optimizer.load_state_dict(loaded["optimizer"])
        made = optimizer.state[parameter]["exp_avg"]
        assert isinstance(made, DTensor)
        assert torch.equal(local_of(made), local_of(cut(moment, (3,), [Shard(1)])))
        assert optimizer.state[parameter]["step"] == 7
        assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_rank_reads_only_the_shards_it_needs_and_the_nearest_copy() -> None:
    whole = torch.randn(8, 2)
    shelf = kept(whole, (2, 4), [Replicate(), Shard(0)])
    with rank_of(1, 2):
        put_together(
            shelf, shelf.skeletons[0], layouts_of({"model": {"weight": cut(whole, (2,), [Shard(0)])}}), nearest=6
        )
    assert sorted(shelf.reads) == [(3, "model/weight"), (6, "model/weight")]


def test_what_every_rank_wants_is_read_so_that_the_disk_is_read_once() -> None:
    shelf = MemoryShelf()
    shelf.keep(0, {name: torch.ones(4, 2) for name in ("whole", "cut", "copied")}, {})
    with rank_of(0, 4):
        alive = {
            "whole": torch.zeros(4, 2),
            "cut": cut(torch.zeros(4, 2), (4,), [Shard(0)]),
            "copied": cut(torch.zeros(4, 2), (2, 2), [Replicate(), Shard(0)]),
        }
        put_together(shelf, shelf.skeletons[0], layouts_of(alive))
    assert shelf.shared == {"whole", "copied"}


def test_stages_with_one_name_for_two_tensors_keep_them_apart() -> None:
    shelf = MemoryShelf()
    for rank in range(4):
        with rank_of(rank, 4):
            stage = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))["dp"]
            local = torch.full((2,), float(rank))
            weight = DTensor.from_local(local, stage, [Shard(0)], run_check=False)
            shelf.keep(rank, *take_apart({"weight": weight}))
    for stage_number, expected in enumerate(([0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0])):
        state = put_together(shelf, shelf.skeletons[2 * stage_number], Layouts())
        assert state["weight"].tolist() == expected


def test_parts_that_contradict_each_other_are_refused() -> None:
    shelf = MemoryShelf()
    for rank in range(2):
        with rank_of(rank, 2):
            shelf.keep(rank, *take_apart({"weight": cut(torch.zeros(4 + rank), (2,), [Shard(0)])}))
    with pytest.raises(CheckpointMismatch, match="weight is not the same tensor in the parts of rank 0 and rank 1"):
        put_together(shelf, shelf.skeletons[0], Layouts())


def test_a_shape_that_differs_is_refused_by_name() -> None:
    shelf = MemoryShelf()
    shelf.keep(0, {"weight": torch.zeros(3)}, {})
    with pytest.raises(CheckpointMismatch, match=r"weight has the shape \(4,\), saved was \(3,\)"):
        put_together(shelf, shelf.skeletons[0], layouts_of({"weight": torch.zeros(4)}))


def test_a_missing_part_is_noticed_before_anything_is_read() -> None:
    whole = torch.randn(8)
    shelf = kept(whole, (4,), [Shard(0)])
    shelf.lose(2)
    with pytest.raises(CheckpointMismatch, match="the part of rank 2 has no tensor model/weight"):
        put_together(shelf, shelf.skeletons[0], Layouts())
    assert shelf.reads == []


def test_summands_are_refused_by_name() -> None:
    with rank_of(0, 2):
        state = {
            "model": {
                "gradient": DTensor.from_local(
                    torch.zeros(2), cut(torch.zeros(2), (2,), [Shard(0)]).device_mesh, [Partial()], run_check=False
                )
            }
        }
        with pytest.raises(CheckpointUnsupported, match="model/gradient can't be kept"):
            take_apart(state)


def test_tied_tensors_share_their_memory_again() -> None:
    shelf = MemoryShelf()
    shelf.keep(0, {"a": torch.randn(3)}, {})
    state = put_together(shelf, {"a": Leaf(0, "a"), "b": Leaf(0, "a", requires_grad=True)}, Layouts())
    assert state["b"].data_ptr() == state["a"].data_ptr()
    assert (state["a"].requires_grad, state["b"].requires_grad) == (False, True)


def test_whole_tensors_that_differ_between_ranks_are_named() -> None:
    shelf = MemoryShelf()
    for rank in range(3):
        shelf.keep(rank, {"same": torch.zeros(2), "counter": torch.full((2,), float(rank))}, {})
    assert differing(shelf.entries()) == ["counter"]


def test_a_state_without_dtensors_is_handed_back_as_it_is() -> None:
    state = {"model": {"weight": torch.zeros(2)}, "list": [1, (2, "x")]}
    assert take_apart(state) == (state, {})
    assert take_apart(state)[0] is state
