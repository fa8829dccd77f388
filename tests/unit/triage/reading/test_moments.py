from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.triage.reading.moments import Moments

CHANGED = datetime(2026, 11, 30, 12, 0, 0)  # noqa: DTZ001
MOMENTS = Moments(CHANGED.timestamp())


def local(*when: int) -> float:
    return datetime(*when).timestamp()  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("line", "time_s"),
    [
        ("2026-11-29T20:11:12Z x", 1795983072.0),
        ("2026-11-29T20:11:12.5+00:00 x", 1795983072.5),
        ("[2026-11-29T21:11:12.250+0100] x", 1795983072.25),
        ("2026-11-29 15:11:12 -05:00 x", 1795983072.0),
        ("2026-11-29 20:11:12,123 INFO x", local(2026, 11, 29, 20, 11, 12, 123000)),
        ("0: [2026/11/29 20:11:12] x", local(2026, 11, 29, 20, 11, 12)),
        ("  time      : 2026-11-29_20:11:12", local(2026, 11, 29, 20, 11, 12)),
        ("slurmstepd: error: *** STEP 1234567.0 ON node-with-a-long-name CANCELLED AT 2026-11-29T20:11:12 DUE TO X ***",
         local(2026, 11, 29, 20, 11, 12)),
        ("E1129 20:11:12.123000 4711 torch/x.py:1] x", local(2026, 11, 29, 20, 11, 12, 123000)),
        ("[rank0]:[W1129 20:11:12.123456789 x.cpp:1] x", local(2026, 11, 29, 20, 11, 12, 123456)),
        ("E1231 23:59:59.000000 1 x.py:1] of the year before", local(2025, 12, 31, 23, 59, 59)),
        ("Nov 29 20:11:12 n3 kernel: x", local(2026, 11, 29, 20, 11, 12)),
        ("Nov  9 20:11:12 n3 kernel: x", local(2026, 11, 9, 20, 11, 12)),
        ("[Sun Nov 29 20:11:12 2026] x", local(2026, 11, 29, 20, 11, 12)),
        ("11/29/2026 20:11:12 - INFO - __main__ - x", local(2026, 11, 29, 20, 11, 12)),
        ("29/11/2026 20:11:12 x", local(2026, 11, 29, 20, 11, 12)),
        ("12/11/2026 20:11:12 x", local(2026, 12, 11, 20, 11, 12)),  # 11 days after, and no 18 before
        ("31/31/2026 20:11:12 x", None),
        ("11/29/2026 08:11:12 PM x", None),
        ("20:11:12 x", None),
        ("[12345.678901] x", None),
        ("2026-02-31 20:11:12 x", None),
        ("E0231 20:11:12.000000 1 x.py:1] x", None),
        ("2026-11-29 99:11:12 x", None),
        ("0000-00-00 00:00:00 x", None),
        ("", None),
        ("a message with many words before it that speaks of 2026-11-29 20:11:12", None),
    ],
)  # fmt: skip
def test_a_line_has_the_time_that_it_says_or_none(line: str, time_s: float | None) -> None:
    assert MOMENTS.of(line) == time_s


def test_seconds_since_boot_are_a_time_where_it_is_known_when_that_was() -> None:
    assert Moments(0.0, boot_s=1000.0).of("[   12.500000] x") == 1012.5
    assert Moments(0.0, boot_s=1000.0).of("<4>[   12.500000] x") == 1012.5


def test_the_29th_of_february_is_one_of_a_year_that_has_it() -> None:
    assert Moments(local(2026, 3, 1)).of("E0229 01:02:03.0 1 x.py:1] x") == local(2024, 2, 29, 1, 2, 3)


def test_a_day_that_is_yet_to_come_was_a_year_ago() -> None:
    assert MOMENTS.of("E1203 01:02:03.0 1 x.py:1] x") == local(2025, 12, 3, 1, 2, 3)


@given(st.integers(0, 4_000_000_000))
def test_every_moment_that_is_written_with_its_zone_is_read_again(second: int) -> None:
    written = datetime.fromtimestamp(second, timezone.utc).isoformat()
    assert MOMENTS.of(written + " x") == float(second)


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    assert MOMENTS.of(text) is None or isinstance(MOMENTS.of(text), float)
