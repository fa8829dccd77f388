"""What the words of the ranks make: a checkpoint, nothing, or nothing yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_resilience.commit.part_word import PartRefused, PartWord, PartWritten
from slurm_resilience.manifest.receipts import named
from slurm_resilience.manifest.records import CheckpointCommitted


@dataclass(frozen=True, slots=True)
class Waiting:
    missing: frozenset[int]


@dataclass(frozen=True, slots=True)
class Complete:
    committed: CheckpointCommitted


@dataclass(frozen=True, slots=True)
class NeverWill:
    why: str
    errno: int | None = None
    """The file system's, where it was the one that refused."""


def diverged_ranks(rank: int) -> str:
    return (
        f"rank {rank} and rank 0 hold different content in tensors that were the same on all ranks: "
        "the ranks have diverged"
    )


def judge(words: Mapping[int, PartWord], world_size: int) -> Waiting | Complete | NeverWill:
    """`words` by rank. Whoever refused decides; else everybody has to have written, on the same terms."""
    for rank, word in sorted(words.items()):
        if isinstance(word, PartRefused):
            return NeverWill(f"rank {rank}: {word.why}", word.errno)
    missing = frozenset(range(world_size)) - words.keys()
    if missing:
        return Waiting(missing)
    written = [word for _, word in sorted(words.items()) if isinstance(word, PartWritten)]
    return _together(written, world_size)


def _together(written: list[PartWritten], world_size: int) -> Complete | NeverWill:
    terms = written[0].terms
    if len(written) != world_size or terms.world_size != world_size:
        return NeverWill(f"{len(written)} ranks have written a part, rank 0 speaks of {terms.world_size}")
    for word in written[1:]:
        rank = word.receipt.rank
        if word.terms.shared != terms.shared:
            return NeverWill(diverged_ranks(rank))
        if (word.terms.checkpoint, word.terms.step, word.terms.attempt) != (
            terms.checkpoint,
            terms.step,
            terms.attempt,
        ):
            return NeverWill(
                f"rank {rank} has written {word.terms.checkpoint} of attempt {word.terms.attempt}, rank 0 "
                f"{terms.checkpoint} of attempt {terms.attempt}"
            )
    parts = tuple(named(w.receipt) for w in written)
    return Complete(
        CheckpointCommitted(
            terms.checkpoint,
            terms.step,
            terms.attempt,
            terms.reason,
            world_size,
            parts,
            round(max(word.seconds for word in written), 3),
            metric=terms.metric,
            stall_s=round(max(word.stall_s for word in written), 4),
        )
    )
