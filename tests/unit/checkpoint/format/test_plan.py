"""A plan is made once and filled in for every save; the bytes are those of a plan made anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.image import PAGE_BYTES
from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.format.hdf5_head import parse
from slurm_resilience.checkpoint.format.hdf5_layout import lay_out
from slurm_resilience.checkpoint.format.hdf5_proof import prove
from slurm_resilience.checkpoint.format.plan import (
    DoesNotFit,
    PartPlan,
    Planner,
    attributes_room,
    structure_room,
)
from slurm_resilience.checkpoint.format.structure import Flattened, flatten


def _state(step: int = 0, *, note: str = "") -> dict[str, Any]:
    tied = torch.full((40,), float(step))
    return {
        "w": tied,
        "head": tied,
        "tiny": [torch.tensor(step), torch.tensor([1, 2], dtype=torch.int8)],
        "empty": torch.empty(0, 2),
        "big": torch.zeros(5000, dtype=torch.bfloat16),
        "step": step,
        "note": note,
    }


def _planned(planner: Planner, flat: Flattened, *, rank: int = 0, **attributes: Any) -> tuple[PartPlan, bytearray]:
    plan = planner.plan(flat, checkpoint="c", rank=rank, attributes=attributes)
    return plan, plan.head(checkpoint="c", rank=rank, attributes=attributes, document=flat.document)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=300))
SAVES = st.tuples(
    st.integers(0, 2**80), st.text(max_size=3000), st.dictionaries(st.text(max_size=5), VALUES, max_size=5)
)


@settings(max_examples=40, deadline=None)
@given(st.lists(SAVES, min_size=2, max_size=4))
def test_whatever_was_planned_before_the_head_is_that_of_a_fresh_planner(
    saves: list[tuple[int, str, dict[str, Any]]],
) -> None:
    planner = Planner()
    for step, note, attributes in saves:
        flat = flatten(_state(note=note) | {"step": step})
        plan, head = _planned(planner, flat, rank=step % 7, **{f"_{name}": value for name, value in attributes.items()})
        fresh, fresh_head = _planned(
            Planner(), flat, rank=step % 7, **{f"_{name}": value for name, value in attributes.items()}
        )
        assert plan == fresh
        assert head == fresh_head
        read = parse(head, plan.image.file_bytes)
        assert read.document == flat.document
        assert repr(read.attributes) == repr({f"_{name}": value for name, value in attributes.items()})


def test_a_state_of_the_same_shape_is_planned_once() -> None:
    planner = Planner()
    first, _ = _planned(planner, flatten(_state(1)), step=1)
    second, head = _planned(planner, flatten(_state(2)), step=2, rank=3)
    assert second is first
    assert parse(head, second.image.file_bytes).attributes == {"step": 2}


@pytest.mark.parametrize(
    "other",
    [
        {"w": torch.zeros(41)},
        {"w": torch.zeros(40, dtype=torch.float64)},
        {"v": torch.zeros(1)},
        {"head": torch.zeros(40)},
    ],
    ids=["shape", "dtype", "name", "no longer tied"],
)
def test_a_state_of_another_shape_is_planned_anew(other: dict[str, Any]) -> None:
    planner = Planner()
    first, _ = _planned(planner, flatten(_state()))
    second, _ = _planned(planner, flatten(_state() | other))
    assert second is not first


def test_a_document_that_outgrows_its_room_gets_another_plan_and_the_old_one_refuses_it() -> None:
    planner = Planner()
    first, _ = _planned(planner, flatten(_state()))
    long = flatten(_state(note="x" * 10_000))
    second, head = _planned(planner, long)
    assert second is not first
    assert parse(head, second.image.file_bytes).document == long.document
    with pytest.raises(DoesNotFit):
        first.head(checkpoint="c", rank=0, attributes={}, document=long.document)
    with pytest.raises(DoesNotFit):
        second.head(checkpoint="c", rank=0, attributes={"note": "x" * 10_000}, document=long.document)
    assert _planned(planner, flatten(_state()))[0] is first


@given(st.integers(0, 10**7))
def test_documents_have_room_to_grow(length: int) -> None:
    assert structure_room(length) % 4096 == 0
    assert structure_room(length) - length >= length // 8 + 512
    assert attributes_room(length) % 1024 == 0
    assert attributes_room(length) - length >= 256


SHAPES = st.lists(st.sampled_from([(), (0, 3), (1,), (15,), (16,), (1023,), (1024,), (1025,), (3, 700)]), max_size=12)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from([torch.uint8, torch.float32, torch.complex128]))
def test_elements_lie_apart_on_pages_behind_the_head(shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    flat = flatten({"all": [torch.zeros(shape, dtype=dtype) for shape in shapes]})
    plan, head = _planned(Planner(), flat)
    image = plan.image
    assert len(head) == image.head_bytes
    end = -(-image.head_bytes // PAGE_BYTES) * PAGE_BYTES
    for region in image.regions:
        assert region.offset >= end
        assert region.bytes < 64 or region.offset % PAGE_BYTES == 0
        assert region.bytes == flat.datasets[region.row].bytes > 0
        end = region.offset + region.bytes
    assert image.file_bytes == (end if image.regions else image.head_bytes)
    assert {region.row for region in image.regions} == {row for row, each in enumerate(flat.datasets) if each.bytes}


def test_a_head_lacks_nothing_but_the_checksums_of_what_is_written() -> None:
    flat = flatten({"w": torch.ones(3), "none": torch.empty(0)})
    plan, head = _planned(Planner(), flat)
    placed = parse(head, plan.image.file_bytes).placed
    assert [each.checksum for each in placed] == [bytes(16), checksum_of(b"")]
    plan.put_checksums(head, {0: b"0123456789abcdef"})
    assert parse(head, plan.image.file_bytes).placed[0].checksum == b"0123456789abcdef"


def test_a_borrowed_tensor_has_no_region_and_its_place_may_come_later() -> None:
    flat = flatten({"a": torch.ones(100), "b": torch.ones(100) + 1, "c": torch.empty(0)}, {"b": "x.h5", "c": "x.h5"})
    assert [dataset.file for dataset in flat.datasets] == [None, "x.h5", None]
    plan = Planner().plan(flat, checkpoint="c", rank=0, attributes={})
    assert [region.row for region in plan.image.regions] == [0]
    early = plan.head(checkpoint="c", rank=0, attributes={}, document=flat.document, places={1: 8192})
    late = plan.head(checkpoint="c", rank=0, attributes={}, document=flat.document)
    assert early != late
    plan.put_places(late, {1: 8192})
    assert early == late
    placed = parse(late, plan.image.file_bytes).placed[1]
    assert (placed.dataset.file, placed.offset) == ("x.h5", 8192)


def test_what_is_borrowed_from_elsewhere_is_another_plan() -> None:
    planner = Planner()
    state = {"a": torch.ones(100), "b": torch.ones(100) + 1}
    plans = [
        planner.plan(flatten(state, borrowed), checkpoint="c", rank=0, attributes={})
        for borrowed in ({}, {"a": "x.h5"}, {"b": "x.h5"}, {"a": "y.h5"})
    ]
    assert len({id(plan) for plan in plans}) == 4


def test_a_name_that_no_tensor_has_can_not_be_borrowed() -> None:
    tied = torch.ones(2)
    for name in ("nobody", "also"):
        with pytest.raises(ValueError, match=name):
            flatten({"first": tied, "also": tied}, {name: "x.h5"})


@pytest.mark.parametrize("file", ["", ".", "..", "../x.h5", "a/b.h5", "/x.h5", ".x.h5", "x\0", "ü.h5"])
def test_a_part_never_borrows_from_outside_its_folder(file: str) -> None:
    flat = flatten({"a": torch.ones(100)}, {"a": file})
    with pytest.raises(ValueError, match="nothing can be borrowed from"):
        Planner().plan(flat, checkpoint="c", rank=0, attributes={})


@pytest.mark.parametrize(
    "other",
    [
        {"w": torch.zeros(101), "v": torch.zeros(3)},
        {"w": torch.zeros(100, dtype=torch.int32), "v": torch.zeros(3)},
        {"v": torch.zeros(3), "w": torch.zeros(100)},
        {"w": torch.zeros(100), "u": torch.zeros(3)},
    ],
    ids=["shape", "dtype", "order", "name"],
)
def test_a_plan_whose_document_and_datasets_disagree_does_not_come_to_be(other: dict[str, Any]) -> None:
    flat, elsewhere = flatten({"w": torch.zeros(100), "v": torch.zeros(3)}), flatten(other)
    layout = lay_out(flat.datasets, structure_bytes=4096, attributes_bytes=1024)
    plan, head = _planned(Planner(), flat)
    prove(head, layout, flat.datasets)
    plan.structure.put(head, elsewhere.document)
    with pytest.raises(ValueError, match="HDF5 would not read"):
        prove(head, layout, flat.datasets)
    with pytest.raises(ValueError, match="HDF5 would not read"):
        prove(head, layout, elsewhere.datasets)
