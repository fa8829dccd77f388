from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.size import size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (5 << 30, "5 GiB"),
        (12_345_678_901, "11.5 GiB"),
        (999.7 * (1 << 30), "1000 GiB"),
        (1000 << 30, "1000 GiB"),
        ((1 << 40) - 1, "1 TiB"),
        (3 << 40, "3 TiB"),
        (7 << 50, "7 PiB"),
        (5000 << 50, "5000 PiB"),
    ],
)
def test_sizes_read_as_people_say_them(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


@given(st.integers(0, 1 << 70))
def test_a_size_is_a_plain_number_with_a_unit(size_bytes: int) -> None:
    number, unit = size_text(size_bytes).split()
    assert number.replace(".", "").isdecimal()
    assert unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
