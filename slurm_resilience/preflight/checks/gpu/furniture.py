"""GPUs as the kernel and the device files show them: there to be seen when the driver's library isn't."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.preflight.checks.reading import fields_of, names_in, text_of

_DEVICE = re.compile(r"nvidia[0-9]+")
_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")
"""PCI classes of GPUs: with a monitor, and without one."""


@dataclass(frozen=True, slots=True)
class Furniture:
    of_the_driver: int
    """GPUs that the loaded driver has taken."""
    device_files: int
    on_the_bus: int
    """Cards of NVIDIA, with or without a driver."""
    of_amd: bool


def furniture(root: Path) -> Furniture:
    return Furniture(
        len(names_in(root / "proc" / "driver" / "nvidia" / "gpus")),
        sum(_DEVICE.fullmatch(name) is not None for name in names_in(root / "dev")),
        sum(_is_nvidia(device) for device in _pci(root)),
        (root / "sys" / "class" / "kfd").exists(),
    )


def closed_to_us(root: Path, may: Callable[[Path, int], bool] = os.access) -> frozenset[str]:
    """Where on the bus cards are that this process may not use: Slurm has given them to other jobs, or to nobody.

    access(2) asks the cgroup of devices, too, and wakes no card as opening it does. Where none keeps jobs apart: none.
    """
    cards = root / "proc" / "driver" / "nvidia" / "gpus"
    closed = set()
    for bus in names_in(cards):
        minor = fields_of(text_of(cards / bus / "information")).get("Device Minor", "")
        device = root / "dev" / f"nvidia{minor}"
        if minor.isdecimal() and device.exists() and not may(device, os.R_OK | os.W_OK):
            closed.add(bus.lower().partition(".")[0])
    return frozenset(closed)


def _pci(root: Path) -> list[Path]:
    devices = root / "sys" / "bus" / "pci" / "devices"
    return [devices / name for name in names_in(devices)]


def _is_nvidia(device: Path) -> bool:
    return text_of(device / "vendor") == _NVIDIA and (text_of(device / "class") or "").startswith(_DISPLAY)
