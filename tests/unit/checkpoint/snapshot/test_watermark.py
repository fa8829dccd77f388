"""The number that two processes look at."""

from __future__ import annotations

import os

import pytest

from slurm_resilience.checkpoint.snapshot.copying import Rising
from slurm_resilience.checkpoint.snapshot.front import Front
from slurm_resilience.checkpoint.snapshot.watermark import SnapshotSpoilt, Watermark


def test_who_attaches_sees_what_the_other_puts():
    mine = Watermark.make()
    other = Watermark.attach(os.dup(mine.descriptor))
    mine.put(2**40 + 1)
    assert other.reached() == 2**40 + 1
    mine.spoil()
    with pytest.raises(SnapshotSpoilt):
        other.reached()
    mine.close()
    other.close()
    mine.close()


def test_what_is_copied_after_the_spoiling_makes_it_no_better():
    mark = Watermark.make()
    rising = Rising(mark, Front([0], 100))
    rising.spoil()
    rising.done(0)
    with pytest.raises(SnapshotSpoilt):
        mark.reached()
    mark.close()
