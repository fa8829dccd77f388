"""`python -m tests.faults.world --seeds 0-1999`: many worlds, and what happened in them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.world.world import World, memory_folder


def live(seed: int) -> World:
    with memory_folder(Path(tempfile.gettempdir())) as folder:
        world = World(seed, folder).live()
        if world.violations:
            world.story = [world.whole_story()]
        return world


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0-199", help="FIRST-LAST")
    parser.add_argument("--story", action="store_true", help="tell every story, not only those of broken laws")
    parser.add_argument("--brief", action="store_true", help="tell no story")
    words = parser.parse_args()
    first, _, last = words.seeds.partition("-")
    counts: Counter[str] = Counter()
    broken: dict[int, list[str]] = {}
    for seed in range(int(first), int(last or first) + 1):
        world = live(seed)
        counts.update(world.counts)
        if world.violations:
            broken[seed] = world.violations
        if (world.violations or words.story) and not words.brief:
            print("\n".join(world.story), end="\n\n")
    for name, count in sorted(counts.items()):
        print(f"{count:7d}  {name}")
    for seed, laws in broken.items():
        print(f"seed {seed}: {laws[0][-600:]}")
    print(f"{len(broken)} of {int(last or first) + 1 - int(first)} worlds broke a law")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
