"""The arena that a writer keeps mapped from job to job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.writer.attachment import Attachment


@pytest.fixture
def attachment():
    made = Attachment()
    yield made
    made.close()


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_same_arena_is_mapped_once_and_its_new_content_is_seen(attachment):
    arena = Arena.make(8192)
    first = attachment.attach(os.dup(arena.descriptor), 8192)
    before = _descriptors()
    arena.memory[:3] = b"new"
    assert attachment.attach(os.dup(arena.descriptor), 8192) is first
    assert bytes(first.memory[:3]) == b"new"
    assert _descriptors() == before
    arena.close()


def test_another_arena_takes_the_place_of_one_that_was_emptied(attachment):
    old, new = Arena.make(8192), Arena.make(4096)
    attachment.attach(os.dup(old.descriptor), 8192)
    os.ftruncate(old.descriptor, 0)
    new.memory[:3] = b"new"
    assert bytes(attachment.attach(os.dup(new.descriptor), 4096).memory[:3]) == b"new"
    old.close()
    new.close()


def test_an_arena_smaller_than_promised_is_refused_and_its_descriptor_closed(attachment):
    arena = Arena.make(4096)
    before = _descriptors()
    with pytest.raises(ValueError, match="4096 bytes"):
        attachment.attach(os.dup(arena.descriptor), 8192)
    assert _descriptors() == before
    arena.close()
