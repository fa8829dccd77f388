"""May Slurm track processes by cgroup here? And nothing of it is left behind."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.sandbox.process import Process, identify

MOUNTPOINT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Usable:
    mountpoint: Path


@dataclass(frozen=True, slots=True)
class Unusable:
    why: str


def probe(mountpoint: Path = MOUNTPOINT, *, user_id: int | None = None) -> Usable | Unusable:
    if (os.geteuid() if user_id is None else user_id) != 0:
        return Unusable("proctrack/cgroup needs root: only root may make cgroups here")
    if (mountpoint / "cgroup.controllers").exists():
        return Unusable(
            f"{mountpoint} is a cgroup v2 tree, which Slurm shares with systemd: the sandbox knows only v1's freezer"
        )
    freezer = mountpoint / "freezer"
    if not freezer.is_dir():
        return Unusable(f"proctrack/cgroup needs the freezer hierarchy, and {freezer} is not mounted")
    trial = freezer / f"slurm-resilience-probe-{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return Unusable(f"proctrack/cgroup needs to make folders in {freezer}: {error.strerror}")
    return Usable(mountpoint)


def folders_of(node: str, mountpoint: Path = MOUNTPOINT) -> list[Path]:
    """The tops of the trees that this node's slurmd made."""
    return sorted(mountpoint.glob(f"*/slurm_{node}"))


def thaw(top: Path) -> None:
    """A frozen process (a suspended job) of cgroup v1 does not even die of SIGKILL."""
    for state in top.rglob("freezer.state"):
        with contextlib.suppress(OSError):
            state.write_text("THAWED")


def processes_in(top: Path) -> list[Process]:
    """Everything that lives in the tree, whatever it has done to hide."""
    pids: set[int] = set()
    for members in top.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in members.read_text().split())
    return [process for pid in sorted(pids) if (process := identify(pid)) is not None]


def remove(top: Path, *, timeout_s: float = 5) -> None:
    """Remove an empty tree, leaves first. The kernel needs a moment after the last process has gone."""
    deadline = time.monotonic() + timeout_s
    while top.exists():
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if not top.exists() or time.monotonic() > deadline:
            return
        time.sleep(0.05)
