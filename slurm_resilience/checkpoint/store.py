"""What a checkpoint store is: the few verbs that training and the command line need.

A store knows files and content. It doesn't know which checkpoints exist (the manifest does), nor the other ranks:
a part is made durable by its rank alone, and the checkpoint comes into being when the manifest names all its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """A durable part: what the manifest must know of it."""

    rank: int
    file: str
    """Relative to the store's root (the run directory)."""
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Elements that need not be written, since they lie in another part: a tensor that hasn't changed."""

    file: str
    """A file in the folder of the part that borrows (a hard link to the other checkpoint's part)."""
    offset: int
    checksum: bytes


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as it lies in a part."""

    name: str
    """The path through the nested state, parts joined by `/`."""
    dtype: str
    """torch's name: `bfloat16`, `float8_e4m3fn`, …"""
    shape: tuple[int, ...]
    bytes: int
    checksum: str


Progress = Callable[[int], None]
"""Called with the number of bytes just dealt with."""


class CheckpointStore(Protocol):
    def write_part(
        self, checkpoint: str, *, rank: int, state: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> PartReceipt:
        """Write `state` (nested dicts, lists and tuples of tensors, arrays, numbers, strings, bytes, None) durably.

        When this returns, bytes and names are durable. Killed at any instant, what is left is inert: no name that
        the manifest could hold. `attributes` are small facts for readers (step, attempt, world size, versions).
        Raises CheckpointUnsupported for a value that can't be kept without pickle, CheckpointUnavailable for the
        file system's refusals (ENOSPC, EDQUOT, EIO, ESTALE), with errno in `__cause__`.
        """

    def read_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> dict[str, Any]:
        """The state as it was given, every byte verified.

        Raises CheckpointDamaged (missing, short, checksum, not this receipt's file), CheckpointUnsupported,
        CheckpointUnavailable.
        """

    def verify_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> list[TensorEntry]:
        """As `read_part`, without building the state. Same errors."""

    def delete(self, checkpoint: str) -> None:
        """Remove the files of `checkpoint`, staging files too. Harmless twice. The manifest has forgotten it before."""

    def found_on_disk(self) -> list[str]:
        """Folders of checkpoints, whole or not: to clear away what the manifest does not name, never to load from."""

    def path_of(self, receipt: PartReceipt) -> Path: ...
