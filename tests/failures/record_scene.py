"""A run to be recorded: how it is started, what is done to it, and what triage has to say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.failures.record_expect import Expect

if TYPE_CHECKING:
    from tests.failures.record_stage import Stage


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    way: str
    """resilient, torchrun (static rendezvous), c10d (torchrun, c10d rendezvous) or plain (srun python)."""
    arguments: str
    """Of the training."""
    expect: Expect | None
    """None: a healthy run."""
    deed: Callable[[Stage], None] | None = None
    options: str = ""
    """Of srun-resilient, or of torchrun."""
    srun: str = ""
    before: str = ""
    """Shell lines ahead of the launch."""
    nodes: int = 2
    ranks: int = 2
    """On each node."""
    environment: Mapping[str, str] = field(default_factory=dict)
    sbatch: Mapping[str, object] = field(default_factory=dict)
    files_only: bool = False
    """Whether only its outputs are given to triage, although there is a run directory."""
    memory_cgroup: bool = False
    patience_s: float = 180.0
