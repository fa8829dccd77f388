"""Comparing states bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.checkpoint.compare import Difference, compare_states

NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]), None),
        (np.array([NAN]), np.array([NAN]), None),
        (NAN, NAN, None),
        (torch.empty(0, 3), torch.empty(0, 3), None),
        ({1: [2, (3,)]}, {1: [2, (3,)]}, None),
        (
            torch.tensor(0.0),
            torch.tensor(-0.0),
            "1 of 1 elements differ, first at (): bytes 00000000 here, 00000080 there",
        ),
        (
            torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8),
            torch.tensor([[1, 2], [9, 9]], dtype=torch.uint8),
            "2 of 4 elements differ, first at (1, 0): bytes 03 here, 09 there",
        ),
        (torch.zeros(2), torch.zeros(3), "float32 (2,) here, float32 (3,) there"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16), "float32 (2,) here, bfloat16 (2,) there"),
        (0.0, -0.0, "0.0 here, -0.0 there"),
        (1, True, "a int here, a bool there"),
        (1, 1.0, "a int here, a float there"),
        ([1], (1,), "a list here, a tuple there"),
        ([1, 2], [1], "2 items here, 1 there"),
        ("a", "b", "'a' here, 'b' there"),
        (np.float32(0.0), np.float32(-0.0), f"{np.float32(0.0)!r} here, {np.float32(-0.0)!r} there"),
        (torch.zeros(1), np.zeros(1), "a Tensor here, a ndarray there"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_one_value_is_the_same_only_if_every_bit_is(a: object, b: object, why: str | None) -> None:
    expected = [] if why is None else [Difference("x", why)]
    assert compare_states({"x": a}, {"x": b}) == expected


def test_names_that_are_only_on_one_side_are_told() -> None:
    a: dict[str, Any] = {"model": {"w": 1, "old": 2}, "step": 1}
    b: dict[str, Any] = {"model": {"w": 1, "new": 3}, "step": 2}
    assert compare_states(a, b) == [
        Difference("model/old", "only here"),
        Difference("model/new", "only there"),
        Difference("step", "1 here, 2 there"),
    ]
    assert compare_states(a, b, prefixes=["step"]) == [Difference("step", "1 here, 2 there")]
    assert compare_states(a, b, prefixes=["model/w", "mod", "st"]) == []
    assert len(compare_states(a, b, prefixes=["model/"])) == 2
