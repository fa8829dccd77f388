"""Errors on their way through torch.distributed.checkpoint: it pickles them, and raises a BaseException of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from torch.distributed.checkpoint.api import CheckpointException

from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointMismatch,
    CheckpointUnavailable,
    CheckpointUnsupported,
    ResilienceError,
)

_MOST_TELLING = (CheckpointDamaged, CheckpointUnsupported, CheckpointMismatch, CheckpointUnavailable, ResilienceError)


@contextlib.contextmanager
def in_our_words(otherwise: type[CheckpointError], here: Callable[[], CheckpointError | None]) -> Iterator[None]:
    """Raise the most telling of the ranks' errors; `otherwise` for torch's complaints about names and shapes.

    `here` knows of an error on this rank that torch has swallowed. What is none of these (a rank out of memory) comes
    as torch raised it.
    """
    try:
        yield
    except CheckpointException as raised:
        ours = here() or _translated(raised, otherwise)
        if ours is None:
            raise
        raise ours from raised


def _translated(raised: CheckpointException, otherwise: type[CheckpointError]) -> ResilienceError | None:
    errors = [(rank, error) for rank, (error, _) in sorted(raised.failures.items())]
    for kind in _MOST_TELLING:
        for _, error in errors:
            if isinstance(error, kind):
                return error
    for rank, error in errors:
        if isinstance(error, OSError):
            return CheckpointUnavailable(f"rank {rank}: {error}")
        if isinstance(error, (ValueError, RuntimeError, LookupError)):
            return otherwise(f"rank {rank}: {error}")
        if isinstance(error, AssertionError) and "metadata read failed" in str(error):
            return CheckpointUnavailable(f"rank {rank}: {error}")
    return None
