"""What a place for published checkpoints is: the few verbs that publishing and fetching need."""

from __future__ import annotations

from typing import Protocol

from slurm_resilience.checkpoint.tiers.contents import Contents
from slurm_resilience.checkpoint.tiers.source import Source
from slurm_resilience.checkpoint.tiers.transit import Transit


class Depot(Protocol):
    """Names are relative, with `/`: `step-0000000120.a3/rank-00000.h5`.

    All verbs raise CheckpointUnavailable where the place says no, with its own error in `__cause__`, and
    ConfigurationError where trying again can't help (no driver, no such bucket, no permission).
    """

    @property
    def where(self) -> str:
        """As the manifest writes it."""

    def size_of(self, name: str) -> int | None:
        """None: there is no such thing."""

    def read_note(self, name: str) -> bytes | None:
        """A small thing, whole. None: there is no such thing."""

    def write_note(self, name: str, data: bytes) -> None:
        """Whole or not at all, durable, replacing what was there."""

    def put(self, name: str, source: Source, contents: Contents, *, owner: str, transit: Transit) -> None:
        """A file, durable when this returns. What a broken-off put leaves may have its name, but then not its size,
        or not the note that says that it is whole. Raises CheckpointDamaged for a source that isn't what was written,
        and Interrupted.
        """

    def source(self, name: str) -> Source:
        """To be read from; says `FileNotFoundError` on entering where there is nothing."""

    def folders(self) -> list[str]:
        """The names of the folders at the top, sorted."""
