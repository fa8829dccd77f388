"""Whether snapshots fit, and what the answer says when they don't."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.snapshot.memory_plan import Budget, DoesNotFit, Fits, plan_memory

GIB = 1 << 30


@pytest.mark.parametrize(
    ("budget", "left_gib"),
    [
        (Budget(2 * GIB, 1, 10 * GIB, None), 7),  # the margin is 1 GiB
        (Budget(2 * GIB, 4, 10 * GIB, None), 1),
        (Budget(20 * GIB, 8, 200 * GIB, None), 30),  # the margin is 5 %
        (Budget(2 * GIB, 1, 100 * GIB, 4 * GIB), 1),  # the limit is tighter
        (Budget(0, 8, 10 * GIB, None), 9),
    ],
)
def test_what_fits_leaves_the_margin(budget, left_gib):
    assert plan_memory(budget) == Fits(left_gib * GIB)


def test_what_does_not_fit_is_told_with_all_its_numbers():
    assert plan_memory(Budget(3 * GIB, 2, 100 * GIB, 6 * GIB)) == DoesNotFit(
        "a snapshot takes 3 GiB for each of 2 ranks, 6 GiB in all; the job's memory limit leaves 6 GiB, "
        "of which 1 GiB stay free"
    )


@given(st.integers(0, 2**40), st.integers(1, 16), st.integers(0, 2**42), st.none() | st.integers(0, 2**42))
def test_it_never_fits_beyond_what_is_available_or_allowed(image_bytes, ranks, available_bytes, limit_bytes):
    answer = plan_memory(Budget(image_bytes, ranks, available_bytes, limit_bytes))
    if isinstance(answer, Fits):
        for room_bytes in (available_bytes, limit_bytes):
            assert room_bytes is None or image_bytes * ranks + answer.left_bytes + GIB <= room_bytes
