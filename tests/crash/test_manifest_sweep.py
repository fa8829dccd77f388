"""A writer of the manifest dies at every line that acts; readers and the next writer don't mind."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.manifest.attempt import begin_attempt, release
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import Owner, read_lease
from slurm_resilience.manifest.lock import Flock, NativeLock, RunLock
from slurm_resilience.manifest.records import AttemptStarted, Line, Record, SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from tests.crash.die_at_line import PACKAGE, die_at_line
from tests.crash.in_memory import tmp_path as tmp_path  # noqa: PLC0414 fixtures are found by their names here
from tests.unit.manifest.without_flock import HurriedClock, RefusedFlock

BEFORE = SaveFailed(1, 1, "before")
FIRST = SaveFailed(1, 2, "first")
SECOND = SaveFailed(1, 3, "second")
LATER = SaveFailed(1, 4, "later")
ACTING = [
    PACKAGE / name
    for name in (
        "durable_file.py",
        "manifest/attempt.py",
        "manifest/journal.py",
        "manifest/lease.py",
        "manifest/link_lock.py",
        "manifest/lock.py",
    )
]
"""Where something is done. To die in a pure module is to die at the line that calls it."""
TORN = b'{"seq": 3, "time": "2025-'

locks = pytest.mark.parametrize("native_lock", [Flock, RefusedFlock])


def open_journal(run: RunDirectory, native_lock: Callable[[Path], NativeLock] = Flock) -> Journal:
    return Journal(run, clock=HurriedClock(), native_lock=native_lock, say=lambda _: None)


def records(run: RunDirectory) -> list[Record]:
    return [line.record for line in Journal(run).read()][1:]


def new_run(folder: Path, native_lock: Callable[[Path], NativeLock] = Flock) -> RunDirectory:
    run = RunDirectory(folder / "run")
    open_journal(run, native_lock).create("test")
    open_journal(run, native_lock).append(BEFORE)
    return run


def once(act: Callable[[RunDirectory], object], run: RunDirectory) -> None:
    act(run)


def sweep(
    folder: Path, prepare: Callable[[Path], RunDirectory], act: Callable[[RunDirectory], object]
) -> Iterator[tuple[RunDirectory, bool]]:
    """The run as each death leaves it, at line after line, and at last as the end that wasn't one leaves it."""
    prepared = prepare(folder / "prepared")
    number, alive = 0, False
    while not alive:
        number += 1
        run = RunDirectory(folder / f"died-at-{number}" / prepared.path.name)
        if prepared.path.exists():
            shutil.copytree(prepared.path, run.path)
        alive = not die_at_line(number, functools.partial(once, act, run), within=ACTING)
        yield run, alive
        shutil.rmtree(run.path.parent, ignore_errors=True)
    assert number > 20, "the sweep met hardly a line"


@locks
def test_creating_a_run_makes_a_whole_one_or_none(tmp_path: Path, native_lock: Callable[[Path], NativeLock]) -> None:
    def create(run: RunDirectory) -> None:
        open_journal(run, native_lock).create("swept")

    for run, alive in sweep(tmp_path, lambda folder: RunDirectory(folder / "run"), create):
        found: list[Line] = Journal(run).read() if Journal(run).exists() else []
        assert len(found) in ((1,) if alive else (0, 1))
        run_id = open_journal(run, native_lock).create("next")
        open_journal(run, native_lock).append(LATER)
        first, second = Journal(run).read()
        assert getattr(first.record, "run_id", None) == run_id
        assert second.record == LATER
        assert not found or found == [first]


@locks
def test_appending_keeps_what_was_and_adds_whole_lines(
    tmp_path: Path, native_lock: Callable[[Path], NativeLock]
) -> None:
    def append(run: RunDirectory) -> None:
        open_journal(run, native_lock).append(FIRST, SECOND)

    for run, alive in sweep(tmp_path, lambda folder: new_run(folder, native_lock), append):
        old, new = [BEFORE], [BEFORE, FIRST, SECOND]
        found = records(run)
        assert found in ([new] if alive else [old, new])
        open_journal(run, native_lock).append(LATER)
        assert records(run) == [*found, LATER]


def test_appending_behind_a_torn_tail_never_loses_the_tail(tmp_path: Path) -> None:
    def prepare(folder: Path) -> RunDirectory:
        run = new_run(folder)
        with run.journal.open("ab") as file:
            file.write(TORN)
        return run

    for run, _ in sweep(tmp_path, prepare, lambda run: open_journal(run).append(FIRST)):
        found = records(run)
        assert found in ([BEFORE], [BEFORE, FIRST])
        aside = [path.read_bytes() for path in run.path.glob("manifest.jsonl.torn-*")]
        assert run.journal.read_bytes().endswith(TORN) or TORN in aside
        open_journal(run).append(LATER)
        assert records(run) == [*found, LATER]
        assert TORN in [path.read_bytes() for path in run.path.glob("manifest.jsonl.torn-*")]


def begin(run: RunDirectory) -> int:
    return begin_attempt(
        run,
        mode="local",
        command=["train"],
        job=None,
        restart_count=None,
        cluster=None,
        nodes=None,
        liveness_by_slurm=never_asked,
    )


def never_asked(owner: Owner) -> Liveness:
    raise AssertionError("the owner's process was here: Slurm need not be asked")


def begun_by_a_dead_process(folder: Path) -> RunDirectory:
    run = new_run(folder)
    assert not die_at_line(10**9, functools.partial(once, begin, run))
    return run


def test_beginning_an_attempt_leaves_a_run_that_the_next_one_can_take(tmp_path: Path) -> None:
    for run, alive in sweep(tmp_path, begun_by_a_dead_process, begin):
        attempts = [record.attempt for record in records(run) if isinstance(record, AttemptStarted)]
        assert attempts in ([[1, 2]] if alive else [[1], [1, 2]])
        owner = read_lease(run)
        assert owner is not None
        assert owner.attempt in ({2} if alive else {1, attempts[-1]})
        assert begin(run) == attempts[-1] + 1
        owner = read_lease(run)
        assert owner is not None
        assert owner.attempt == attempts[-1] + 1


def test_letting_go_leaves_the_lease_or_none(tmp_path: Path) -> None:
    for run, alive in sweep(tmp_path, begun_by_a_dead_process, lambda run: release(run, 1)):
        owner = read_lease(run)
        assert owner is None or (not alive and owner.attempt == 1)
        assert begin(run) == 2


def test_breaking_a_dead_holders_link_can_itself_be_broken_off(tmp_path: Path) -> None:
    """The first holder dies inside, the second while breaking its lock; the third gets in."""

    def prepare(folder: Path) -> RunDirectory:
        run = new_run(folder, RefusedFlock)
        child = os.fork()
        if child == 0:
            RunLock(run.lock, native=RefusedFlock).__enter__()
            os._exit(0)
        os.waitpid(child, 0)
        assert run.lock.with_name("manifest.lock.held").exists()
        return run

    broken_off = 0
    for run, _ in sweep(tmp_path, prepare, lambda run: open_journal(run, RefusedFlock).append(FIRST)):
        found = records(run)
        assert found in ([BEFORE], [BEFORE, FIRST])
        broken_off += bool(list(run.path.glob("manifest.lock.held.breaking-*")))
        open_journal(run, RefusedFlock).append(LATER)
        assert records(run) == [*found, LATER]
        assert not run.lock.with_name("manifest.lock.held").exists()
    assert broken_off > 0
