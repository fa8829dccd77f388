"""What was found on this machine: all that the doctor judges. Pure."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_resilience.spank.installed import Contents
from slurm_resilience.spank.plugstack import PluginLine, Plugstack

Kind = Literal["file", "folder", "other", "missing", "unknown"]
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class FileFact:
    """One path, links followed. `unknown`: this account may not look."""

    path: Path
    kind: Kind
    uid: int = -1
    mode: int = 0
    """The permission bits alone."""

    @property
    def executable(self) -> bool:
        return self.kind == "file" and bool(self.mode & 0o111)

    @property
    def others_may_write(self) -> bool:
        return bool(self.mode & OTHERS_MAY_WRITE)


@dataclass(frozen=True, slots=True)
class Settings:
    """Of slurm.conf. None: not known."""

    told_by: str
    """`the controller`, or the file that was read for want of one."""
    why_not_the_controller: str | None
    plugstack: Path | None
    plugin_directories: tuple[Path, ...]
    kill_wait_s: int | None
    slurmd_user: str
    slurmd_uid: int
    """Who runs the daemons of the nodes: root, but for a cluster of somebody's own."""


@dataclass(frozen=True, slots=True)
class PluginFile:
    file: FileFact
    contents: Contents | None
    """None: this account may not read it."""


@dataclass(frozen=True, slots=True)
class Named:
    """A line of plugstack.conf that is ours, and the file that Slurm finds for it."""

    line: PluginLine
    plugin: PluginFile | None
    """None: there is no such file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What this machine's srun says of itself."""

    listed: bool
    """Whether `srun --help` lists --resilient."""
    complaint: str | None
    """What it said instead, or besides."""


@dataclass(frozen=True, slots=True)
class Facts:
    slurm_version: str | None
    """As its commands say it, `22.05.8`; None: there is no Slurm here."""
    machine: str
    """`uname -m`."""
    node: str
    my_version: str
    compute_node: bool
    """Whether there is a slurmd here."""
    settings: Settings
    plugstack_file: FileFact
    plugstack: Plugstack
    named: tuple[Named, ...]
    unnamed: PluginFile | None
    """The plugin, where it lies in a PluginDir and no line names it."""
    loaded: Loaded
    paths: tuple[FileFact, ...] = ()
    """Whatever the arguments name, and the parents of what is missing."""
    health_checks: tuple[FileFact, ...] = ()
    health_way: tuple[FileFact, ...] = ()
    """The folders that lead to the checks, links resolved, from the root on."""

    def path(self, path: str | Path) -> FileFact:
        wanted = Path(path)
        return next((fact for fact in self.paths if fact.path == wanted), FileFact(wanted, "unknown"))
