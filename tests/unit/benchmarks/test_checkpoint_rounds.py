from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checkpoint.rounds import NotHere, measure, turns


@given(st.integers(1, 8), st.integers(0, 20))
def test_every_method_has_one_turn_a_round_and_each_place_once_in_as_many_rounds(methods: int, rounds: int) -> None:
    names = [f"method {number}" for number in range(methods)]
    order = list(turns(names, rounds))
    by_round = [order[start : start + methods] for start in range(0, len(order), methods)]
    assert len(by_round) == rounds
    assert all(sorted(one) == names for one in by_round)
    if rounds >= methods:
        assert {one[0] for one in by_round} == set(names)


def test_the_trial_round_does_not_count() -> None:
    numbers = iter(range(100))
    part = measure("part", {"a": lambda: {"took_s": float(next(numbers))}}, 2)
    assert part.values("a", "took_s") == [1.0, 2.0]


class TorchsOwn(BaseException):
    """As torch's CheckpointException."""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NotHere("not installed"), "not installed"),
        (ValueError("first\nsecond"), "ValueError: first"),
        (TorchsOwn("no"), "TorchsOwn: no"),
    ],
)
def test_a_method_that_fails_is_left_out_with_its_reason_and_takes_nobody_with_it(
    error: BaseException, why: str
) -> None:
    def failing() -> dict[str, float]:
        raise error

    part = measure("part", {"bad": failing, "good": lambda: {"took_s": 1.0}}, 3)
    assert part.missing == {"bad": why}
    assert part.measured == {"good": [{"took_s": 1.0}] * 3}


def test_a_method_that_fails_after_some_rounds_leaves_no_half_of_a_pair() -> None:
    answers = iter([{"took_s": 1.0}, {"took_s": 1.0}])
    part = measure("part", {"bad": lambda: next(answers)}, 3)
    assert part.values("bad", "took_s") == []
    assert "bad" in part.missing


def test_whoever_interrupts_the_benchmark_ends_it() -> None:
    def interrupted() -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure("part", {"a": interrupted}, 1)


def test_an_intolerant_measurement_ends_with_the_first_error() -> None:
    def failing() -> dict[str, float]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        measure("part", {"a": failing}, 1, tolerant=False)
