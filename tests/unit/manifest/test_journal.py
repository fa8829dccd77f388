from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.errors import (
    ConfigurationError,
    Fenced,
    ManifestDamaged,
    ManifestUnavailable,
    ManifestUnsupported,
)
from slurm_resilience.manifest.encoding import encode
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, Line, Record, RunCreated, SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory

A = SaveFailed(1, 10, "first")
B = SaveFailed(1, 20, "second")


def started(number: int) -> AttemptStarted:
    return AttemptStarted(number, "local", ("train",), "host")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "runs" / "run")


@pytest.fixture
def journal(run: RunDirectory) -> Journal:
    journal = Journal(run)
    journal.create("test")
    return journal


def records(run: RunDirectory) -> list[Record]:
    return [line.record for line in Journal(run).read()][1:]


def set_aside(run: RunDirectory) -> list[bytes]:
    return [path.read_bytes() for path in run.path.glob("manifest.jsonl.torn-*")]


def test_creating_a_run_makes_its_directory_and_its_first_line(run: RunDirectory) -> None:
    assert not Journal(run).exists()
    run_id = Journal(run).create("night shift")
    assert Journal(run).exists()
    (line,) = Journal(run).read()
    assert line.seq == 1
    assert line.record == RunCreated(run_id, "night shift")


def test_creating_a_run_twice_keeps_the_first(run: RunDirectory) -> None:
    assert Journal(run).create("one") == Journal(run).create("two")
    assert len(Journal(run).read()) == 1


def test_of_many_creators_at_once_one_wins_and_the_others_learn_its_id(run: RunDirectory) -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda i=i: ids.append(Journal(run).create(f"{i}"))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert len(Journal(run).read()) == 1


def test_appended_records_come_back_in_order_with_their_place_and_time(run: RunDirectory, journal: Journal) -> None:
    first = journal.append(A)
    both = journal.append(B, A)
    assert [line.seq for line in (*first, *both)] == [2, 3, 4]
    assert Journal(run).read()[1:] == [*first, *both]
    assert records(run) == [A, B, A]


def test_two_journals_of_one_run_see_what_the_other_wrote(run: RunDirectory, journal: Journal) -> None:
    other = Journal(run)
    other.append(A)
    journal.append(B)
    other.append(started(1))
    with pytest.raises(Fenced):
        journal.append(B, fence=0)
    assert records(run) == [A, B, started(1)]


def test_appending_nothing_writes_nothing(run: RunDirectory, journal: Journal) -> None:
    before = run.journal.read_bytes()
    assert journal.append() == []
    assert run.journal.read_bytes() == before


@pytest.mark.parametrize("verb", [lambda j: j.read(), lambda j: j.append(A)], ids=["read", "append"])
@pytest.mark.parametrize("made", [True, False], ids=["an empty directory", "no directory"])
def test_where_there_is_no_run_one_sentence_says_so(
    run: RunDirectory, verb: Callable[[Journal], object], made: bool
) -> None:
    if made:
        run.path.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=f"there is no run in {run.path}"):
        verb(Journal(run))
    assert not run.journal.exists()


def test_an_older_attempt_is_fenced_and_its_own_attempt_is_not(run: RunDirectory, journal: Journal) -> None:
    journal.append(started(1), started(2))
    with pytest.raises(Fenced) as caught:
        journal.append(A, fence=1)
    assert (caught.value.mine, caught.value.newest) == (1, 2)
    journal.append(B, fence=2)
    journal.append(B, fence=3)
    assert records(run) == [started(1), started(2), B, B]


def test_an_attempt_started_in_a_torn_line_fences_nobody(run: RunDirectory, journal: Journal) -> None:
    with run.journal.open("ab") as file:
        file.write(encode(Line(2, 0.0, started(5)))[:-1])
    journal.append(A, fence=4)
    assert records(run) == [A]


def test_a_torn_tail_of_any_length_is_ignored_set_aside_and_written_over(run: RunDirectory, journal: Journal) -> None:
    journal.append(A)
    whole = run.journal.read_bytes()
    torn = encode(Line(3, 0.0, B))
    for length in range(1, len(torn)):
        run.journal.write_bytes(whole + torn[:length])
        for old in run.path.glob("manifest.jsonl.torn-*"):
            old.unlink()
        assert records(run) == [A]
        # Half of them by a process that has been writing before, half by a new one.
        (journal if length % 2 else Journal(run)).append(B)
        assert records(run) == [A, B]
        assert set_aside(run) == [torn[:length]]
        run.journal.write_bytes(whole)
        journal = Journal(run)


def test_a_torn_tail_is_named_by_the_line_it_would_have_been(run: RunDirectory, journal: Journal) -> None:
    with run.journal.open("ab") as file:
        file.write(b'{"seq": 2, "ti')
    journal.append(A)
    (path,) = run.path.glob("manifest.jsonl.torn-*")
    assert path.name.startswith("manifest.jsonl.torn-2-")


def test_a_last_line_with_its_length_but_without_its_content_is_torn_too(run: RunDirectory, journal: Journal) -> None:
    journal.append(A)
    lost = b"\0" * 80 + b"\n"  # what a host that lost its power can leave
    with run.journal.open("ab") as file:
        file.write(lost)
    assert records(run) == [A]
    journal.append(B)
    assert records(run) == [A, B]
    assert set_aside(run) == [lost]


def test_reading_changes_nothing(run: RunDirectory, journal: Journal) -> None:
    with run.journal.open("ab") as file:
        file.write(b"torn")
    before = sorted((path.name, path.read_bytes()) for path in run.path.iterdir())
    journal.read()
    assert sorted((path.name, path.read_bytes()) for path in run.path.iterdir()) == before


def one_byte_changed(raw: bytes) -> bytes:
    at = raw.index(b"first")
    return raw[:at] + b"f1rst" + raw[at + 5 :]


def second_line_gone(raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    return b"".join(lines[:1] + lines[2:])


def second_line_twice(raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    return b"".join([*lines[:2], lines[1], *lines[2:]])


def second_line_cut(raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    return b"".join([lines[0], lines[1][:20] + b"\n", *lines[2:]])


def first_line_gone(raw: bytes) -> bytes:
    return raw[raw.index(b"\n") + 1 :]


def nothing_left(raw: bytes) -> bytes:
    return b""


def first_line_torn(raw: bytes) -> bytes:
    return raw[:25]


@pytest.mark.parametrize(
    ("corrupt", "line"),
    [
        (one_byte_changed, 2),
        (second_line_gone, 2),
        (second_line_twice, 3),
        (second_line_cut, 2),
        (first_line_gone, 1),
        (nothing_left, 1),
        (first_line_torn, 1),
    ],
)
def test_damage_before_the_last_line_is_refused_by_file_and_line(
    run: RunDirectory, journal: Journal, corrupt: Callable[[bytes], bytes], line: int
) -> None:
    journal.append(A)
    journal.append(B)
    run.journal.write_bytes(corrupt(run.journal.read_bytes()))
    before = run.journal.read_bytes()
    verbs: list[Callable[[], object]] = [lambda: Journal(run).read(), lambda: Journal(run).append(A)]
    for verb in verbs:
        with pytest.raises(ManifestDamaged) as caught:
            verb()
        assert (caught.value.path, caught.value.line) == (run.journal, line)
        assert f"{run.journal}, line {line}" in str(caught.value)
    assert run.journal.read_bytes() == before


def test_a_writer_notices_that_the_file_has_become_shorter(run: RunDirectory, journal: Journal) -> None:
    journal.append(A, B)
    raw = run.journal.read_bytes()
    run.journal.write_bytes(raw[: raw.rindex(b'{"seq": 3')])
    with pytest.raises(ManifestDamaged, match="shorter than it was"):
        journal.append(A)


def test_a_second_creation_further_down_is_damage(run: RunDirectory, journal: Journal) -> None:
    first = journal.read()[0].record
    with run.journal.open("ab") as file:
        file.write(encode(Line(2, 0.0, first)) + encode(Line(3, 0.0, A)))
    with pytest.raises(ManifestDamaged, match="line 2: a run is created in the first line"):
        journal.read()


def test_a_later_version_is_refused_by_reader_and_writer(run: RunDirectory, journal: Journal) -> None:
    run.journal.write_bytes(encode(Line(1, 0.0, RunCreated(journal.create(""), "test", format=2))))
    with pytest.raises(ManifestUnsupported, match="line 1: format 2"):
        Journal(run).read()
    with pytest.raises(ManifestUnsupported, match="line 1: format 2"):
        Journal(run).append(A)


@pytest.mark.parametrize("torn", [b"", b'{"seq": 3, "torn'], ids=["whole", "torn"])
def test_an_append_that_the_disk_has_no_room_for_leaves_nothing(
    run: RunDirectory, journal: Journal, torn: bytes
) -> None:
    journal.append(A)
    with run.journal.open("ab") as file:
        file.write(torn)
    whole = run.journal.stat().st_size - len(torn)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    long_ = SaveFailed(1, 30, "x" * 10_000)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 100, hard))
        with pytest.raises(ManifestUnavailable, match="not available"):
            journal.append(long_)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert run.journal.stat().st_size == whole
    assert records(run) == [A]
    journal.append(long_)
    assert records(run) == [A, long_]


def test_an_append_whose_sync_fails_is_taken_back(
    run: RunDirectory, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fails_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fails_once)
    with pytest.raises(ManifestUnavailable, match="Input/output error"):
        journal.append(A)
    assert records(run) == []
    journal.append(B)
    assert records(run) == [B]


def test_a_line_that_could_not_be_taken_back_counts(
    run: RunDirectory, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    class Free:  # filelock has files of its own to truncate
        def __init__(self, path: Path) -> None:
            pass

        def acquire(self, timeout_s: float) -> bool:
            return True

        def release(self) -> None:
            pass

    journal = Journal(run, native_lock=Free)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(ManifestUnavailable):
            journal.append(started(4))
    with pytest.raises(Fenced):
        journal.append(A, fence=3)
    journal.append(B)
    assert records(run) == [started(4), B]


def test_a_writer_without_the_lock_is_noticed_and_its_line_is_not_cut_off(
    run: RunDirectory, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def overtaken(descriptor: int, data: bytes) -> int:
        real(descriptor, encode(Line(2, 0.0, B)))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", overtaken)
    with pytest.raises(ManifestDamaged, match="flock is not shared between hosts"):
        journal.append(A)
    assert b"second" in run.journal.read_bytes()


def test_a_reader_is_not_fooled_by_a_tail_that_is_replaced_while_it_reads(
    run: RunDirectory, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(A, B)
    good = run.journal.read_bytes()
    # The first half of a torn line, then the second half of what was written over it.
    mixed = good[:-40] + b"?" + good[-39:] + encode(Line(4, 0.0, A))
    answers = [mixed, good, good]
    monkeypatch.setattr(Path, "read_bytes", lambda path: answers.pop(0))
    assert [line.record for line in journal.read()][1:] == [A, B]


WRITER = """
import sys
from pathlib import Path
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
journal = Journal(RunDirectory(Path(sys.argv[1])))
for step in range(int(sys.argv[3])):
    journal.append(SaveFailed(int(sys.argv[2]), step, "a"), SaveFailed(int(sys.argv[2]), step, "b" * 5000))
"""


def test_processes_that_append_at_once_lose_and_mix_nothing(run: RunDirectory, journal: Journal) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, run.path, f"{number}", "15"], cwd=Path(__file__).parents[3])
        for number in range(4)
    ]
    while any(writer.poll() is None for writer in writers):
        journal.read()  # never torn, never damaged, while they write
    assert [writer.returncode for writer in writers] == [0] * 4
    told = records(run)
    assert len(told) == 4 * 15 * 2
    for first, second in zip(told[::2], told[1::2], strict=True):
        assert isinstance(first, SaveFailed)
        assert second == SaveFailed(first.attempt, first.step, "b" * 5000)
    for number in range(4):
        assert [r.step for r in told[::2] if isinstance(r, SaveFailed) and r.attempt == number] == list(range(15))


def test_threads_of_one_process_may_share_a_journal(run: RunDirectory, journal: Journal) -> None:
    threads = [
        threading.Thread(target=lambda i=i: [journal.append(SaveFailed(i, step, "")) for step in range(10)])
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(records(run)) == 40


def test_the_manifest_loads_nothing_heavy() -> None:
    script = (
        "import sys; from slurm_resilience.manifest import attempt, chain, journal, agent_record;"
        "print([m for m in ('filelock', 'click', 'rich', 'torch', 'h5py', 'numpy', 'psutil') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"
