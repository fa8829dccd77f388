"""Checkpoints that are whole and were never committed, because whoever was to do it died: committed by who comes next.

Nobody trusts a directory listing: what counts is the word of every rank, durable and complete. Content is verified when
it is loaded, as always.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.commit.gathering import Gathering, read_words
from slurm_resilience.commit.part_word import PartWord, PartWritten
from slurm_resilience.commit.verdict import Complete, judge
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointCommitted
from slurm_resilience.manifest.run_directory import RunDirectory

_CHECKPOINT_ID = re.compile(r"step-([0-9]{10})\.a([0-9]+)(\.final)?")


def adopt(run: RunDirectory, *, attempt: int, clock: Clock) -> list[CheckpointCommitted]:
    """Commit, as `attempt`, what is whole and nobody committed; by step. Returns what now exists.

    Only of attempts that nobody has gone on from elsewhere since: what a ghost finished later is no past of ours.
    Raises OSError, ManifestError and Fenced.
    """
    journal = Journal(run)
    found = candidates(_listed(run.checkpoints), Chain.of(journal.read()), attempt)
    adopted = [adopt_one(journal, name, attempt=attempt, clock=clock) for name in found]
    return [each for each in adopted if each is not None]


def adopt_one(journal: Journal, name: str, *, attempt: int, clock: Clock) -> CheckpointCommitted | None:
    """Commit `name`, one of the `candidates`, if it is whole. Raises as `adopt` does."""
    folder = journal.run.checkpoints / name
    words: dict[int, PartWord] = {}
    read_words(folder, words)
    written = next((word for word in words.values() if isinstance(word, PartWritten)), None)
    if written is None:
        return None
    world_size = written.terms.world_size
    seen = judge(words, world_size)
    if not isinstance(seen, Complete) or seen.committed.checkpoint != name:
        return None
    if not all(_lies_there(journal.run.path / part.file, part.bytes) for part in seen.committed.parts):
        return None  # the words are what is left of one that somebody was removing
    gathering = Gathering(journal, folder, world_size=world_size, fence=attempt, clock=clock)
    return seen.committed if gathering.commit(seen.committed) is None else None


def candidates(found: Iterable[str], chain: Chain, attempt: int) -> list[str]:
    """Which of the folders `found` can hold a checkpoint to adopt, by step. Pure."""
    known = {str(checkpoint.committed.checkpoint) for checkpoint in chain.checkpoints}
    gone_on = max(
        (each.number for each in chain.attempts if each.resumed is not None and each.number < attempt), default=0
    )
    matches = [match for match in map(_CHECKPOINT_ID.fullmatch, found) if match and match[0] not in known]
    return sorted(match[0] for match in matches if gone_on <= int(match[2]) < attempt)


def place_in_line(checkpoint: str) -> tuple[int, int, bool]:
    """Of one of the `candidates`: the larger, the further the training was. Pure."""
    match = _CHECKPOINT_ID.fullmatch(checkpoint)
    assert match is not None
    return int(match[1]), int(match[2]), match[3] is not None


def _lies_there(part: Path, size_bytes: int) -> bool:
    try:
        return part.stat().st_size == size_bytes
    except FileNotFoundError:
        return False


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
