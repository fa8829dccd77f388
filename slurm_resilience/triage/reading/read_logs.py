"""The door: reads log files, in worker processes where that is worth it. Never raises for what stands in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.triage.event import Event
from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.reading.log_report import LogReport, Unreadable
from slurm_resilience.triage.reading.one_file import OneFile
from slurm_resilience.triage.reading.speakers import speakers_by_name

WORTH_WORKERS_BYTES = 32 << 20
"""Less than this is read sooner than workers are started."""
WORKERS_AT_MOST = 8
EVENTS_AT_MOST = 100_000


def read_logs(
    paths: Sequence[Path],
    table: Sequence[KnownFailure],
    *,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
    since: Mapping[Path, int] | None = None,
    lines_before: Mapping[Path, int] | None = None,
    attempt: int | None = None,
    nodes: Collection[str] = (),
) -> LogReport:
    """What the files say. A folder among `paths` stands for every file below it.

    `progress` hears of bytes read, of how many; `workers`: processes, by default as many as there are processors, and
    none for little; `since`: what lies before that byte of a file is not looked at, and where `lines_before` says how
    many newlines stand there (`FileRead.line_ends` of the look before) it is not even read; `attempt`: only parts of
    this attempt, in files that tell attempts apart; `nodes`: names to look for in the files' names.

    Workers are new Python processes: a program that calls this has to begin with `if __name__ == "__main__":`, as
    every program that uses `multiprocessing`; otherwise one process reads everything.
    """
    # Imported here: nobody pays for processes and JSON who reads nothing.
    from slurm_resilience.triage.reading.workers import Task, read_alone, read_side_by_side

    unreadable: list[Unreadable] = []
    files = list(dict.fromkeys(_files(paths, unreadable)))
    sizes = [_size_bytes(path) for path in files]
    total = sum(sizes)
    heard = _Heard(total, progress)
    speakers = speakers_by_name([str(path) for path in files], nodes)
    begins, skipped = since or {}, lines_before or {}
    tasks = [
        Task(number, path, speaker, size, begins.get(path, 0), skipped.get(path), attempt)
        for number, (path, speaker, size) in enumerate(zip(files, speakers, sizes, strict=True))
    ]
    if workers is None:
        workers = min(WORKERS_AT_MOST, _processors()) if total >= WORTH_WORKERS_BYTES else 0
    workers = min(workers, len(tasks))
    results = (
        read_side_by_side(table, tasks, workers, heard.more) if workers > 1 else read_alone(table, tasks, heard.more)
    )
    return _together(results, len(tasks), table, unreadable)


@dataclass(slots=True)
class _Heard:
    total: int
    tell: Callable[[int, int], None] | None
    so_far: int = 0

    def more(self, read_bytes: int) -> None:
        self.so_far += read_bytes
        if self.tell is not None:
            self.tell(min(self.so_far, self.total), self.total)


def _together(
    results: Iterable[tuple[int, OneFile]],
    count: int,
    table: Sequence[KnownFailure],
    unreadable: list[Unreadable],
) -> LogReport:
    by_name = {entry.name: entry for entry in table}
    read: list[OneFile | None] = [None] * count
    room = EVENTS_AT_MOST
    for number, one in results:
        kept = one.events[: max(0, room)]
        room -= len(kept)
        left_out = sum(event.count for event in one.events[len(kept) :])
        file = (
            one.file if not left_out or one.file is None else replace(one.file, left_out=one.file.left_out + left_out)
        )
        # A worker's entries are copies: an event has the table's own.
        read[number] = replace(one, events=tuple(_own(event, by_name) for event in kept), file=file)
    ones = [one for one in read if one is not None]
    files = tuple(one.file for one in ones if one.file is not None)
    return LogReport(
        events=tuple(event for one in ones for event in one.events),
        unreadable=(*unreadable, *(one.unreadable for one in ones if one.unreadable is not None)),
        files=files,
        failures=tuple(failure for one in ones for failure in one.failures),
        read_bytes=sum(file.size_bytes for file in files),
        not_before_s={place: time_s for one in ones for place, time_s in one.not_before_s},
    )


def _own(event: Event, by_name: Mapping[str, KnownFailure]) -> Event:
    if event.known is None:
        return event
    own = by_name.get(event.known.name, event.known)
    return event if own is event.known else replace(event, known=own)


def _files(paths: Sequence[Path], unreadable: list[Unreadable]) -> Iterable[Path]:
    """Folders that links lead to are entered where they are named, not where they are met: a link may lead back."""

    def refuse(error: OSError) -> None:
        unreadable.append(Unreadable(str(error.filename), f"{error.filename} can't be read: {error.strerror}"))

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path, onerror=refuse):
            folders.sort()
            yield from (Path(folder, name) for name in sorted(names))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):
        return 0


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
