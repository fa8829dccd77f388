"""Names of tensors."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.format.path_name import segments_of


def test_names_stay_as_people_know_them() -> None:
    assert segments_of(["layers.0.weight", 3, None, ("a", 1)]) == ["layers.0.weight", "3", "None", "('a', 1)"]


def test_an_integer_of_thousands_of_digits_has_a_name() -> None:
    assert segments_of([16**5000]) == ["0x1" + "0" * 5000]


def test_what_hdf5_can_not_name_is_escaped() -> None:
    assert segments_of(["a/b", "", ".", "50%", "\0", "\ud800"]) == ["a%2Fb", "%", "%2E", "50%25", "%00", "%ED%A0%80"]


@given(st.lists(st.one_of(st.text(st.characters(exclude_categories=())), st.integers(), st.none()), unique_by=repr))
def test_siblings_never_share_a_name_and_names_never_hold_a_separator(keys: list[Any]) -> None:
    segments = segments_of(keys)
    assert len(set(segments)) == len(keys)
    assert all(segment and segment != "." and "/" not in segment and "\0" not in segment for segment in segments)
    assert all(segment.encode() for segment in segments)
