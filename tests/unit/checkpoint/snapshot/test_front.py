"""How far a file is there while batches finish in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.snapshot.front import Front


@st.composite
def _finished_in_any_order(draw):
    starts = sorted(draw(st.lists(st.integers(0, 1000), max_size=30)))
    return starts, draw(st.integers(starts[-1] if starts else 0, 2000)), draw(st.permutations(range(len(starts))))


@given(_finished_in_any_order())
def test_the_front_never_falls_never_passes_an_open_batch_and_ends_at_the_end(case):
    starts, end, order = case
    front = Front(starts, end)
    open_batches = set(range(len(starts)))
    before = front.reached
    for batch in order:
        open_batches.discard(batch)
        reached = front.done(batch)
        assert reached >= before
        assert reached == min((starts[other] for other in open_batches), default=end)
        before = reached
    assert front.reached == end


def test_batches_out_of_order_are_refused():
    with pytest.raises(ValueError, match="begin"):
        Front([4096, 0], 8192)


def test_without_batches_all_is_there_from_the_beginning():
    assert Front([], 4096).reached == 4096
