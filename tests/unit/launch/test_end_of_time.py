"""The file by which the agents hear that the end has moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.launch.end_of_time import EndOfTime, read_end_of_time, write_end_of_time


@pytest.mark.parametrize("end", [EndOfTime(1_700_000_000.0, 60.0), EndOfTime(0.0, 0.0), EndOfTime(1.5, 1e9)])
def test_what_is_written_is_read(end: EndOfTime, tmp_path: Path) -> None:
    write_end_of_time(tmp_path / "end", end)
    assert read_end_of_time((tmp_path / "end").read_bytes()) == end


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "end_s": null}'])
def test_what_cannot_be_read_is_an_error_and_no_end(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_end_of_time(data)
