from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.tiers.pace import Pace, parse_rate
from slurm_resilience.checkpoint.tiers.throttle import Throttle
from tests.unit.checkpoint.tiers.files import NoTime


@given(
    st.floats(1, 1e12),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.floats(0, 10)), min_size=1, max_size=30),
)
def test_who_sleeps_as_told_never_passes_more_than_rate_and_burst(rate: float, steps: list[tuple[int, float]]) -> None:
    pace, now_s, passed = Pace.of(rate, now_s=0.0), 0.0, 0
    for count, idle_s in steps:
        now_s += idle_s
        pace, sleep_s = pace.spend(count, now_s)
        assert sleep_s >= 0
        now_s += sleep_s
        passed += count
        assert passed <= rate * now_s * (1 + 1e-9) + pace.burst_bytes + 1e-3 * rate


def test_a_long_transfer_takes_bytes_by_rate() -> None:
    clock = NoTime()
    throttle = Throttle(1e6, clock=clock)
    for _ in range(100):
        throttle.spend(100_000)
    assert clock.time_s - 1000 == pytest.approx(10, abs=0.2)


def test_a_clock_that_goes_backwards_fills_nothing() -> None:
    pace, _ = Pace.of(100, now_s=50.0).spend(10, 50.0)
    later, sleep_s = pace.spend(10, 10.0)
    assert sleep_s == pytest.approx(0.1)
    assert later.at_s == 50.0


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("200MB/s", 200e6), ("1.5 GiB/s", 1.5 * (1 << 30)), ("300000", 3e5), ("4k", 4000), ("10 MiB", 10 << 20)],
)
def test_a_rate_is_read_as_people_write_it(text: str, bytes_per_s: float) -> None:
    assert parse_rate(text) == bytes_per_s


@pytest.mark.parametrize("text", ["", "fast", "0MB/s", "-5", "5 m/h", "1e6", "nan", "5I"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no rate"):
        parse_rate(text)
