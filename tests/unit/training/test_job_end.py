"""When the job's time is over, as it is now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_resilience.training.job_end import LOOK_S, JobEnd
from tests.faults.fake_slurm import FakeClock


def write(file: Path, text: str) -> None:
    """As the relay does it."""
    unnamed = file.with_name("unnamed")
    unnamed.write_text(text)
    unnamed.replace(file)


def test_without_a_file_the_end_is_what_it_was_at_the_start(tmp_path: Path) -> None:
    clock = FakeClock(s=1000.0)
    for file in (None, tmp_path / "end"):
        end = JobEnd(1500.0, file, clock)
        assert (end.end_s(), end.seconds_left(), end.monotonic_s()) == (1500.0, 500.0, 1500.0)
    assert JobEnd(None, None, clock).seconds_left() is None
    assert JobEnd(None, None, clock).monotonic_s() is None


def test_an_end_that_moves_is_seen_once_it_is_looked_for_again(tmp_path: Path) -> None:
    clock, file = FakeClock(s=1000.0), tmp_path / "end"
    end = JobEnd(1500.0, file, clock)
    write(file, '{"end_s": 1400.0}')
    assert end.seconds_left() == 400.0
    write(file, '{"end_s": 1200.5, "of a later version": 1}')
    assert end.end_s() == 1400.0
    clock.s += LOOK_S
    assert end.end_s() == 1200.5
    file.unlink()
    clock.s += LOOK_S
    assert end.end_s() == 1200.5


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"end_s": "soon"}', '{"end_s": null}', '{"end_s": true}', '{"end_s": NaN}']
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path / "end", text)
    assert JobEnd(1500.0, tmp_path / "end", FakeClock()).end_s() == 1500.0


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    clock, file = FakeClock(s=1000.0), tmp_path / "end"
    end = JobEnd(None, file, clock)
    write(file, '{"end_s": 1400.0}')
    assert end.end_s() == 1400.0
    status = file.stat()
    file.write_text('{"end_s": 1300.0}')
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    clock.s += LOOK_S
    assert end.end_s() == 1400.0
