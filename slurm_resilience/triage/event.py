"""One thing that a log says, with where it stands, who says it and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.triage.known.entry import KnownFailure


@dataclass(frozen=True, slots=True)
class Place:
    """Where it can be read again."""

    file: str
    line: int
    """From 1."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who wrote a line, as far as the line, its file's name and its surroundings tell."""

    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    """Of the step: what `srun --label` puts before a line."""
    pid: int | None = None
    job: str | None = None
    attempt: int | None = None
    """Of the run, where the output says where one begins."""


@dataclass(frozen=True, slots=True)
class Event:
    place: Place
    text: str
    """The line, without what was put before it, and no longer than a few hundred characters."""
    known: KnownFailure | None
    """None: an exception that ended a process, and that no entry knows."""
    speaker: Speaker = Speaker()
    about: Speaker = Speaker()
    """Whom the line names, where it names somebody: torchrun's table is about a rank, srun's error about a node."""
    time_s: float | None = None
    """Since the epoch, corrected by the offset of its node's clock where that was stored."""
    count: int = 1
    """How often the same was said by the same."""
    groups: tuple[tuple[str, str], ...] = ()
    """What else the line names: path, device, code, seq, …"""
