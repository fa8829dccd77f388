"""Which generator goes on where."""

from __future__ import annotations

import pytest

from slurm_resilience.training.random_state import devices_again


@pytest.mark.parametrize(
    ("count", "was", "now", "places"),
    [
        (4, 2, 2, [0, 1, 2, 3]),
        (4, None, 2, [0, 1, 2, 3]),  # written by an older version
        (4, 2, None, [0, 1, 2, 3]),  # CUDA isn't in use yet
        (4, 0, 2, [2, 1, 0, 3]),  # two nodes of 4 GPUs were, one of 8 is
        (8, 6, 1, [0, 6, 2, 3, 4, 5, 1, 7]),
        (1, 0, 3, [3]),  # each task saw its own GPU only, now it sees all
        (8, 5, 0, [5, 1, 2, 3, 4, 0, 6, 7]),
        (0, 0, 0, []),
    ],
)
def test_the_device_of_this_rank_goes_on_with_its_own_numbers(
    count: int, was: int | None, now: int | None, places: list[int]
) -> None:
    assert devices_again(count, was=was, now=now) == places
    assert len(set(places)) == count
