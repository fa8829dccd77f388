"""Two hundred random schedules of faults, in virtual time: see tests/faults/world.

`python -m tests.faults.world --seeds 0-1999` lives through more; `--seeds 17 --story` tells one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.world.world import World, memory_folder

SEEDS, AT_ONCE = 200, 25


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_is_done_to_a_run_it_comes_to_its_end_and_no_law_is_broken(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + AT_ONCE):
        with memory_folder(tmp_path) as folder:
            world = World(seed, folder).live()
            assert world.violations == [], world.whole_story()


def test_a_seed_tells_the_same_story_twice(tmp_path: Path) -> None:
    assert _story(7, tmp_path) == _story(7, tmp_path)


def _story(seed: int, folder: Path) -> list[str]:
    with memory_folder(folder) as inside:
        world = World(seed, inside).live()
        told = [text.replace(str(inside), "") for text in world.story]
    return [re.sub(r"\b[0-9a-f]{16}\b", "RUN", text) for text in told]
