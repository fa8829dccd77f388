"""What a part says of itself."""

from __future__ import annotations

from typing import Any


def facts_of(step: int, attempt: int, world_size: int) -> dict[str, Any]:
    import torch

    return {"step": step, "attempt": attempt, "world_size": world_size, "torch": str(torch.__version__)}
