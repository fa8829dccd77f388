"""A job as text, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.image import Image, Region
from slurm_resilience.checkpoint.writer.job import NotAJob, WriteJob

numbers = st.integers(0, 2**63)
jobs = st.builds(
    WriteJob,
    checkpoint=st.text(max_size=20),
    rank=st.integers(0, 99999),
    file=st.just("checkpoints/step-1.a1/rank-00000.h5"),
    image=st.builds(
        Image,
        file_bytes=numbers,
        head_bytes=numbers,
        checksums_offset=numbers,
        regions=st.lists(st.builds(Region, row=numbers, offset=numbers, bytes=numbers), max_size=5).map(tuple),
    ),
    context=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())),
)


@given(jobs)
def test_a_job_comes_back_as_it_was(job):
    assert WriteJob.from_json(job.to_json()) == job


def _without(job: WriteJob, **changes: object) -> bytes:
    return json.dumps({**json.loads(job.to_json()), **changes}).encode()


@pytest.mark.parametrize("changes", [{"version": 2}, {"rank": None}, {"regions": [[1, 2]]}, {"file": "../x/y"}])
@given(job=jobs)
def test_another_text_is_not_a_job(changes, job):
    with pytest.raises(NotAJob):
        WriteJob.from_json(_without(job, **changes))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"null", b"\xff"])
def test_garbage_is_not_a_job(text):
    with pytest.raises(NotAJob):
        WriteJob.from_json(text)


@pytest.mark.parametrize(
    "file", ["/checkpoints/a/rank-00000.h5", "checkpoints/../../rank-00000.h5", "rank-00000.h5", ""]
)
def test_a_file_outside_the_run_directory_is_refused(file):
    with pytest.raises(ValueError, match="run directory"):
        WriteJob("a", 0, file, Image(0, 0, 0, ()), {})
