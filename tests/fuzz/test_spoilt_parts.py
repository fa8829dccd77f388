"""A reader is given parts that were spoilt in every way we can think of, and must not be harmed by one.

The quick version; the long one: python -m tests.fuzz --minutes 5 --seed 7.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.campaign import campaign
from tests.fuzz.mutations import KINDS, mutate
from tests.fuzz.sample import write_samples

SEED = 20260101
COUNT = 1500


@pytest.mark.timeout(600)  # it reads 1500 parts
def test_spoilt_parts_are_read_right_or_refused_and_nothing_else_happens(tmp_path: Path) -> None:
    report = campaign(tmp_path / "fuzz", seed=SEED, count=COUNT)
    assert report.findings == [], "\n".join(str(finding) for finding in report.findings)
    assert report.tried.keys() == KINDS.keys()


def test_a_seed_and_a_number_make_the_same_spoilt_part_again(tmp_path: Path) -> None:
    samples = write_samples(tmp_path)
    for number in range(60):
        (_, once), (_, again) = (mutate(Random(f"1:{number}"), samples) for _ in range(2))
        assert once == again
