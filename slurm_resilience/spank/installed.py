"""What a file says that is taken for the plugin: its stamp, its machine, the paths built into it. Pure: bytes in.

The stamp is a string in the file, `slurm-resilience-spank VERSION for Slurm MAJOR.MINOR.MICRO`: the Slurm whose spank.h
it was built with. Slurm compares major and minor with its own and loads nothing else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "resilience.so"

_STAMP = re.compile(rb"slurm-resilience-spank (\S{1,64}) for Slurm (\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_RELAY = re.compile(rb"(?<![\x20-\x7e])(/[\x21-\x7e]{0,400}/slurm-resilience/relay)\0")
_HEALTH = re.compile(rb"(?<![\x20-\x7e])(/[\x21-\x7e]{0,400}/slurm-resilience/health\.d)\0")
_MACHINES = {3: "i386", 20: "powerpc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64", "riscv64": "riscv", "i686": "i386"}


@dataclass(frozen=True, slots=True)
class Stamp:
    version: str
    """The plugin's own."""
    slurm: tuple[int, int, int]

    @property
    def slurm_release(self) -> str:
        return f"{self.slurm[0]}.{self.slurm[1]:02d}"


@dataclass(frozen=True, slots=True)
class Elf:
    bits: int
    """32 or 64: its ELF class."""
    machine: str
    """As `uname -m` names it; `machine N` where we know no name."""
    shared: bool
    """Whether it is a shared object at all."""


@dataclass(frozen=True, slots=True)
class Contents:
    """None: nothing of that kind is in the file."""

    stamp: Stamp | None
    elf: Elf | None
    relay: str | None
    """Where it looks for the relay unless told."""
    health_dir: str | None


def read_contents(data: bytes) -> Contents:
    return Contents(_stamp(data), _elf(data), _path(_RELAY, data), _path(_HEALTH, data))


def candidates(plugin: str, plugin_directories: Sequence[Path]) -> tuple[Path, ...]:
    """Where Slurm looks for what stands in plugstack.conf, in its order."""
    if plugin.startswith("/"):
        return (Path(plugin),)
    return tuple(folder / plugin for folder in plugin_directories)


def runs_on(elf: Elf, machine: str) -> bool:
    """`machine` as `uname -m` says it."""
    return elf.machine == _OTHER_NAMES.get(machine, machine)


def release_of(version: str) -> tuple[int, int] | None:
    """(22, 5) of `slurm-wlm 22.05.8`."""
    found = re.search(r"(\d+)\.(\d+)\.", version)
    return None if found is None else (int(found[1]), int(found[2]))


def _stamp(data: bytes) -> Stamp | None:
    found = _STAMP.search(data)
    if found is None:
        return None
    major, minor, micro = (int(found[number]) for number in (2, 3, 4))
    return Stamp(found[1].decode(errors="replace"), (major, minor, micro))


def _path(pattern: re.Pattern[bytes], data: bytes) -> str | None:
    found = pattern.search(data)
    return None if found is None else found[1].decode()


def _elf(data: bytes) -> Elf | None:
    if data[:4] != b"\x7fELF" or len(data) < 20:
        return None
    order = ">" if data[5] == 2 else "<"
    kind, machine = struct.unpack_from(f"{order}HH", data, 16)
    return Elf({1: 32, 2: 64}.get(data[4], 0), _MACHINES.get(machine, f"machine {machine}"), kind == 3)
