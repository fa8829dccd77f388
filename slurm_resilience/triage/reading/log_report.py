"""What was found in log files: events, torchrun's tables, and how far each file could be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_resilience.triage.event import Event, Place, Speaker

NOBODY = Speaker()
NOWHERE = Place("", 0)


@dataclass(frozen=True, slots=True)
class Unreadable:
    path: str
    why: str
    """One sentence that names the file."""


@dataclass(frozen=True, slots=True)
class AttemptPart:
    """A part of a file that is of one attempt (or one job), as the output itself says."""

    attempt: int | None
    run: str | None
    job: str | None
    first_line: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class FileRead:
    path: str
    size_bytes: int
    """As read: unpacked, and without what `since` left out."""
    lines: int
    """Of the whole file, up to where it was read."""
    first_s: float | None
    """Since the epoch: the first time that stands in it; None where no line has one."""
    last_s: float | None
    last_words: str
    """The last line that isn't empty."""
    ends_whole: bool
    """It ends with a newline, and did not grow or shrink meanwhile."""
    note: str | None = None
    """One sentence on what is odd about it: it grew, it was cut, it is damaged."""
    speaker: Speaker = NOBODY
    """Who writes it, as far as its name says."""
    parts: tuple[AttemptPart, ...] = ()
    left_out: int = 0
    """Lines that some entry knows, and that no event tells of, because there were too many kinds of them."""
    line_ends: int = 0
    """Newlines in the whole file, up to where it was read: for who goes on there (`lines_before`)."""


@dataclass(frozen=True, slots=True)
class RankFailure:
    """One rank in torchrun's table of failures, which each agent writes for its own ranks."""

    rank: int
    local_rank: int | None
    host: str | None
    exitcode: int | None
    """Negative: the number of the signal."""
    signal: str | None
    """`SIGKILL`, as torchrun names it."""
    pid: int | None
    time_s: float | None
    """Since the epoch. torchrun writes local time to the second: it is taken as the reader's."""
    error_file: str | None
    message: str | None
    """The last exception of `traceback`; None where torchrun knew none."""
    root: bool
    """It stands under "Root Cause (first observed failure)", which is said for each agent by itself."""
    place: Place = NOWHERE
    speaker: Speaker = NOBODY
    """Who wrote the table: an agent."""


@dataclass(frozen=True, slots=True)
class LogReport:
    events: tuple[Event, ...]
    """By file, in the order of the lines. Of what the same said again and again, the first three and the last are kept;
    the `count` of the last stands for those between too, so that the sum is what was said."""
    unreadable: tuple[Unreadable, ...] = ()
    files: tuple[FileRead, ...] = ()
    failures: tuple[RankFailure, ...] = ()
    read_bytes: int = 0
    not_before_s: Mapping[Place, float] = field(default_factory=dict)
    """For events without a time: the last time that stood in the file before them."""
