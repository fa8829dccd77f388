"""What a shard holds, said in boxes, is what torch gives it."""

from __future__ import annotations

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import _StridedShard

from slurm_resilience.checkpoint.distributed.pieces import Cut, Piece, local_shape, pieces_of, whole_of

SHAPES = st.lists(st.integers(0, 9), min_size=1, max_size=3)


@st.composite
def cuts_and_meshes(draw: st.DrawFn) -> tuple[list[int], list[int], list[Cut | None]]:
    shape = draw(SHAPES)
    mesh_shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    cut = st.builds(Cut, st.integers(0, len(shape) - 1), st.sampled_from((1, 1, 2, 3)))
    return shape, mesh_shape, [draw(st.none() | cut) for _ in mesh_shape]


def as_torch_cuts(whole: torch.Tensor, size: int, index: int, cut: Cut | None) -> torch.Tensor:
    if cut is None:
        return whole
    placement = Shard(cut.dim) if cut.split == 1 else _StridedShard(cut.dim, split_factor=cut.split)
    shards, _ = placement._split_tensor(whole, size, with_padding=False, contiguous=True)
    return shards[index]


@given(cuts_and_meshes())
def test_the_boxes_hold_what_torch_puts_in_the_shard(case):
    shape, mesh_shape, cuts = case
    whole = torch.arange(math.prod(shape)).reshape(shape)
    for coordinate in itertools.product(*(range(size) for size in mesh_shape)):
        shard = whole
        for size, index, cut in zip(mesh_shape, coordinate, cuts, strict=True):
            shard = as_torch_cuts(shard, size, index, cut)
        pieces = pieces_of(shape, mesh_shape, coordinate, cuts)
        if pieces is None:
            assert any(cut is not None and cut.split > 1 for cut in cuts)
            continue
        assert sum(piece.elements for piece in pieces) == shard.numel()
        if pieces:
            assert local_shape(shape, pieces) == tuple(shard.shape)
        for piece in pieces:
            assert torch.equal(_box(whole, piece.whole, piece.sizes), _box(shard, piece.local, piece.sizes))


@given(cuts_and_meshes())
def test_all_shards_together_are_the_whole_once_for_every_copy(case):
    shape, mesh_shape, cuts = case
    count = torch.zeros(shape, dtype=torch.int64)
    for coordinate in itertools.product(*(range(size) for size in mesh_shape)):
        pieces = pieces_of(shape, mesh_shape, coordinate, cuts)
        if pieces is None:
            return
        for piece in pieces:
            _box(count, piece.whole, piece.sizes).add_(1)
    copies = math.prod(size for size, cut in zip(mesh_shape, cuts, strict=True) if cut is None)
    assert (count == copies).all()


def test_fsdp_beside_tensor_parallelism_holds_one_box_a_rank() -> None:
    cuts = [Cut(0, split=2), Cut(0)]
    firsts = [pieces_of((8,), (2, 2), at, cuts) for at in itertools.product(range(2), range(2))]
    assert firsts == [(Piece((start,), (0,), (2,)),) for start in (0, 4, 2, 6)]


def test_an_uneven_strided_cut_is_not_guessed_at() -> None:
    assert pieces_of((10,), (4, 2), (0, 0), [Cut(0, split=2), Cut(0)]) is None


def test_a_scalar_is_one_box_and_a_tensor_without_elements_none() -> None:
    assert whole_of(()) == (Piece((), (), ()),)
    assert whole_of((3, 0)) == ()
    assert pieces_of((), (2,), (1,), [None]) == whole_of(())


def _box(tensor: torch.Tensor, at: tuple[int, ...], sizes: tuple[int, ...]) -> torch.Tensor:
    for dim, (start, length) in enumerate(zip(at, sizes, strict=True)):
        tensor = tensor.narrow(dim, start, length)
    return tensor
