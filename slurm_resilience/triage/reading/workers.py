"""Several processes that read files side by side; one alone where more can't be had."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.triage.event import Speaker
from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.reading.error_files import read_error_file
from slurm_resilience.triage.reading.matcher import Matcher
from slurm_resilience.triage.reading.meaning import Meanings
from slurm_resilience.triage.reading.one_file import FileReader, OneFile
from slurm_resilience.triage.reading.sieve import Sieve
from slurm_resilience.triage.reading.vocabulary import Vocabulary

BATCH_BYTES = 8 << 20
"""Small files are handed over together."""
_WAITING = 4
"""Batches that are handed over for each worker, beyond those that are worked at."""


@dataclass(frozen=True, slots=True)
class Task:
    number: int
    path: Path
    by_name: Speaker
    size_bytes: int
    since_bytes: int
    lines_before: int | None
    attempt: int | None


def new_reader(table: Sequence[KnownFailure]) -> FileReader:
    matcher = Matcher(table)
    return FileReader(matcher, Sieve(Meanings(Vocabulary.of(table), matcher)))


def read_task(reader: FileReader, task: Task, progress: Callable[[int], None]) -> OneFile:
    from_rank = read_error_file(task.path, task.by_name, reader.matcher)
    if from_rank is not None:
        progress(task.size_bytes)
        return from_rank
    return reader.read(
        task.path,
        task.by_name,
        since_bytes=task.since_bytes,
        lines_before=task.lines_before,
        attempt=task.attempt,
        progress=progress,
    )


def read_alone(
    table: Sequence[KnownFailure], tasks: Sequence[Task], progress: Callable[[int], None]
) -> Iterator[tuple[int, OneFile]]:
    reader = new_reader(table)
    for task in tasks:
        yield task.number, read_task(reader, task, progress)


def read_side_by_side(
    table: Sequence[KnownFailure], tasks: Sequence[Task], workers: int, progress: Callable[[int], None]
) -> Iterator[tuple[int, OneFile]]:
    """In whatever order they are ready. Where workers can't be started, or die, the rest is read by this process."""
    left = {task.number: task for task in tasks}
    try:
        for number, one in _pooled(table, tasks, workers):
            progress(left.pop(number).size_bytes)
            yield number, one
    except (OSError, BrokenProcessPool, RuntimeError, ImportError):  # no semaphores, no memory, no processes
        yield from read_alone(table, list(left.values()), progress)


def _pooled(table: Sequence[KnownFailure], tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, OneFile]]:
    # spawn: a fork of a process that has threads may wait for a lock for ever.
    context = multiprocessing.get_context("spawn")
    batches = iter(_batches(tasks))
    with ProcessPoolExecutor(workers, context, _begin, (tuple(table),)) as pool:
        running: set[Future[list[tuple[int, OneFile]]]] = set()
        try:
            while True:
                while len(running) < workers + _WAITING and (batch := next(batches, None)) is not None:
                    running.add(pool.submit(_read_batch, batch))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        finally:
            for future in running:
                future.cancel()


def _batches(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """The largest files first: the last ones to be ready are small then."""
    batch: list[Task] = []
    filled = 0
    for task in sorted(tasks, key=lambda task: -task.size_bytes):
        batch.append(task)
        filled += task.size_bytes
        if filled >= BATCH_BYTES:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


_reader: FileReader | None = None


def _begin(table: Sequence[KnownFailure]) -> None:
    global _reader  # noqa: PLW0603 - a worker's one reader; what it learns in one file holds for the next
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it calls us off
    # The pool's queue would let us wait for ever for a parent that was killed.
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _reader = new_reader(table)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _read_batch(batch: list[Task]) -> list[tuple[int, OneFile]]:
    assert _reader is not None
    return [(task.number, read_task(_reader, task, lambda _: None)) for task in batch]
