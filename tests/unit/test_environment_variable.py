from __future__ import annotations

import pytest

from slurm_resilience.environment_variable import first_number, quantity, whole_number
from slurm_resilience.errors import ConfigurationError


@pytest.mark.parametrize(("text", "number"), [(None, None), ("", None), ("4", 4), ("0", 0), ("-1", -1)])
def test_a_whole_number_is_what_stands_there(text: str | None, number: int | None) -> None:
    assert whole_number({} if text is None else {"RANK": text}, "RANK") == number


@pytest.mark.parametrize("text", ["two", "4(x2)", "1.5", " "])
def test_what_is_no_whole_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match="RANK is") as refused:
        whole_number({"RANK": text}, "RANK")
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(("text", "number"), [(None, None), ("", None), ("0", 0.0), ("90", 90.0), ("1.5", 1.5)])
def test_a_quantity_is_what_stands_there(text: str | None, number: float | None) -> None:
    assert quantity({} if text is None else {"X": text}, "X", "seconds") == number


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "5 s"])
def test_what_is_no_quantity_is_refused_by_name_and_unit(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"X is .* not a number of days"):
        quantity({"X": text}, "X", "days")


def test_nothing_is_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(ConfigurationError, match="X is '0'"):
        quantity({"X": "0"}, "X", "days", may_be_zero=False)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (None, None),
        ("", None),
        ("4", 4),
        ("4(x2)", 4),
        ("4,2", 4),
        ("8(x2),4", 8),
        ("4G", None),  # megabytes are counted there, and this isn't 4 of them
        ("-1", None),
        ("many", None),
        ("\u0664", None),
    ],
)
def test_of_slurms_counts_the_first_is_taken_and_nothing_is_refused(text: str | None, number: int | None) -> None:
    assert first_number({} if text is None else {"X": text}, "X") == number
