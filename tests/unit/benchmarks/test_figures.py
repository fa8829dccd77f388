from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Figure, figure, paired_difference, paired_ratio

seconds = st.floats(0.001, 1000)


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    assert figure([4, 1, 2, 100]) == Figure(3, 1, 100, 4)


def test_nothing_measured_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        figure([])


def test_a_pair_without_its_other_half_is_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_difference([1, 2], [1])


@given(st.lists(seconds, min_size=1), st.floats(0, 100))
def test_what_comes_on_top_in_every_pair_is_the_difference(before: list[float], more: float) -> None:
    assert paired_difference(before, [one + more for one in before]).median == pytest.approx(more, abs=1e-9)


@given(st.lists(seconds, min_size=1), st.floats(0.5, 10))
def test_a_constant_factor_is_the_ratio_whatever_the_machine_did_between_pairs(
    before: list[float], factor: float
) -> None:
    assert paired_ratio(before, [one * factor for one in before]).median == pytest.approx(factor)


def test_one_measurement_has_no_spread_to_tell_of() -> None:
    assert figure([1.234]).text() == "1.23"
    assert figure([1, 2, 4]).text(1) == "2.0 (1.0 to 4.0)"
