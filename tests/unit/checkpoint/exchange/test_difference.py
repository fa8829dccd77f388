"""How far two states are from each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.exchange import difference
from slurm_resilience.checkpoint.exchange.difference import Distance, state_differences


def distance(a: Any, b: Any) -> Distance | None:
    (found,) = state_differences({"x": a}, {"x": b})
    return found.distance


def test_states_that_are_the_same_have_no_difference() -> None:
    state = {"a": torch.arange(5.0), "b": [1, float("nan")]}
    assert state_differences(state, {"a": torch.arange(5.0), "b": [1, float("nan")]}) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([3.0, 4.0], [3.0, 1.0], Distance(5.0, math.sqrt(10), 3.0, 3.0, 1, 2)),
        ([1, 2], [1, 5], Distance(math.sqrt(5), math.sqrt(26), 3.0, 3.0, 1, 2)),
        ([True, False], [True, True], Distance(1.0, math.sqrt(2), 1.0, 1.0, 1, 2)),
        ([3j, 0], [0, 4], Distance(3.0, 4.0, 5.0, 4.0, 2, 2)),
        ([0.0, 1.0], [-0.0, 1.0], Distance(1.0, 1.0, 0.0, 0.0, 0, 2)),  # other bits, the same numbers
        ([math.inf, 1.0], [math.inf, 2.0], Distance(math.inf, math.inf, 1.0, 1.0, 1, 2)),
    ],
)
def test_a_distance_is_of_numbers_in_double_precision(a: list[Any], b: list[Any], expected: Distance) -> None:
    assert distance(torch.tensor(a), torch.tensor(b)) == expected
    assert distance(np.array(a), np.array(b)) == expected


def test_a_nan_makes_what_it_touches_nan_and_is_counted() -> None:
    apart = distance(torch.tensor([math.nan, 1.0]), torch.tensor([1.0, 1.0]))
    assert apart is not None
    assert math.isnan(apart.norm_a)
    assert math.isnan(apart.most)
    assert (apart.norm_b, apart.differing) == (math.sqrt(2), 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.complex64, torch.uint16])
def test_every_kind_of_number_has_a_distance(dtype: torch.dtype) -> None:
    apart = distance(torch.tensor([1.0, 2.0]).to(dtype), torch.tensor([1.0, 4.0]).to(dtype))
    assert apart == Distance(math.sqrt(5), math.sqrt(17), 2.0, 2.0, 1, 2)


def packed(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.uint8).view(torch.bits8)


@pytest.mark.parametrize(
    ("a", "b"),
    [(torch.zeros(2), torch.zeros(3)), (torch.zeros(2), 1.0), (1.0, 2.0), (packed(1), packed(2))],
    ids=["shapes", "kinds", "no tensors", "packed bits"],
)
def test_where_there_is_no_distance_the_difference_is_told_all_the_same(a: Any, b: Any) -> None:
    (found,) = state_differences({"x": a}, {"x": b})
    assert found.distance is None
    assert found.why


def test_arrays_of_the_other_byte_order_have_a_distance() -> None:
    (found,) = state_differences({"x": np.array([1, 2], dtype=">f8")}, {"x": np.array([1, 4], dtype=">f8")})
    assert found.distance is not None
    assert found.distance.most == 2.0


def test_other_dtypes_of_one_shape_have_a_distance_too() -> None:
    assert distance(torch.tensor([1.0]), torch.tensor([1.5], dtype=torch.float64)) == Distance(1, 1.5, 0.5, 0.5, 1, 1)


def test_tied_tensors_are_found_by_each_of_their_names() -> None:
    a, b = torch.zeros(2), torch.ones(2)
    found = state_differences({"x": a, "y": {"z": a}}, {"x": b, "y": {"z": b}})
    assert [(each.name, each.distance is not None) for each in found] == [("x", True), ("y/z", True)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 40), st.integers(1, 10), st.integers(0, 2**31))
def test_a_distance_does_not_depend_on_how_many_elements_are_looked_at_at_a_time(
    count: int, at_once: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(count, generator=generator) for _ in range(2))
    whole = state_differences({"x": a}, {"x": b})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difference, "_AT_ONCE", at_once)
        pieces = state_differences({"x": a}, {"x": b})
    assert len(whole) == len(pieces) == min(count, 1)
    for one, other in zip(whole, pieces, strict=True):
        assert one.distance is not None
        assert other.distance is not None
        assert other.distance.norm_difference == pytest.approx(one.distance.norm_difference)
        assert (other.distance.most, other.distance.differing) == (one.distance.most, one.distance.differing)
