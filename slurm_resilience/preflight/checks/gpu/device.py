"""A GPU as its driver tells it. Pure. Any of it may be None: that card, or that driver, doesn't tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Link:
    """An NVLink."""

    number: int
    active: bool
    errors: int | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A process that computes on it."""

    pid: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    lost: str | None = None
    """Why the driver can't reach it. Then nothing else of it is known."""
    uuid: str | None = None
    model: str | None = None
    bus: str | None = None
    recovery_action: int | None = None
    """What the driver wants done to it, as NVML counts them; 0: nothing. Driver 570 and newer."""
    uncorrectable_errors: int | None = None
    """Of its memory, since the driver was loaded."""
    ecc: bool | None = None
    ecc_after_reset: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: int | None = None
    """Because of uncorrectable errors, in its life."""
    retired_pages: int | None = None
    """Because of double bit errors, in its life. Cards before Ampere."""
    all_retired_pages: int | None = None
    retirement_pending: bool | None = None
    links: tuple[Link, ...] = ()
    slowdown: int | None = None
    """Why its clocks are low, as NVML's bits."""
    temperature_c: int | None = None
    slowdown_at_c: int | None = None
    persistent: bool | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    """Without what the driver keeps for itself, where it tells them apart."""
    users: tuple[User, ...] | None = None
    partitioned: bool | None = None
    """MIG: the job has a slice of it."""


class DriverMissing(Exception):
    """Nobody can be asked about GPUs. The message says what is missing, in a sentence."""


class LibraryMissing(DriverMissing):
    """Only the Python library is missing: the GPUs may be fine."""


class Driver(Protocol):
    def version(self) -> str | None: ...

    def gpus(self) -> tuple[Gpu, ...]:
        """Those that this process may use. Raises DriverMissing."""
        ...
