"""What a part says of itself, and the training of its state."""

from __future__ import annotations

import sys
from typing import Any

from slurm_resilience.manifest.records import known_metric


def facts_of(step: int, attempt: int, world_size: int) -> dict[str, Any]:
    import torch

    return {"step": step, "attempt": attempt, "world_size": world_size, "torch": str(torch.__version__)}


def metric_of(said: Any) -> float | None:
    """What `run.metric` was set to, as a number: trainings set it to tensors and NumPy's numbers, too.

    None where it is none. That is said, and no reason to lose a checkpoint, or the training.
    """
    if said is None:
        return None
    try:
        return known_metric(float(said))
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is torch's, of a tensor of many elements
        sys.stderr.write(
            f"slurm-resilience: run.metric is a {type(said).__name__} and not a number: this checkpoint has none\n"
        )
        return None
