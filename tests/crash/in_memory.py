"""`from tests.crash.in_memory import tmp_path as tmp_path`: a sweep's folder, in memory where possible.

A process that dies takes nothing back of what it has handed to the kernel, so that the disk is not the question; and
each of thousands of fsyncs of a real one takes its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.world.world import memory_folder


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with memory_folder(tmp_path_factory.mktemp("sweep")) as folder:
        yield folder
