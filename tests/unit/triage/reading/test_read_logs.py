from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.reading import read_logs as door
from slurm_resilience.triage.reading.floods import HEARD_AT_MOST
from slurm_resilience.triage.reading.log_report import LogReport
from slurm_resilience.triage.reading.one_file import LONG_LINE
from slurm_resilience.triage.reading.read_logs import read_logs
from slurm_resilience.triage.reading.tally import FIRST, KINDS
from tests.unit.triage.reading.entries import ENTRIES, FULL, PEER, TASK, TIME_LIMIT, WATCHDOG, XID

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(content: str | bytes, name: str = "a.log") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


def read(*paths: Path, attempt: int | None = None, since: dict[Path, int] | None = None) -> LogReport:
    return read_logs(paths, ENTRIES, workers=0, attempt=attempt, since=since)


def told(*paths: Path) -> list[tuple[str | None, int]]:
    return [(event.known.name if event.known else None, event.place.line) for event in read(*paths).events]


def only(path: Path) -> Event:
    (event,) = read(path).events
    return event


def test_an_event_says_where_who_when_and_what(write: Write) -> None:
    path = write("nothing\n3: [2026-11-29T20:11:12.500+00:00] NVRM: Xid (PCI:0000:3b:00): 79, pid=1\nnothing\n")
    event = only(path)
    assert event.place == Place(str(path), 2)
    assert event.known is XID
    assert event.text == "NVRM: Xid (PCI:0000:3b:00): 79, pid=1"
    assert event.speaker.task == 3
    assert event.time_s == 1795983072.5
    assert event.groups == (("device", "0000:3b:00"), ("code", "79"))


def test_whom_a_line_names_is_not_who_says_it(write: Write) -> None:
    event = only(write("srun: error: n3: task 7: Killed\n"))
    assert (event.about.node, event.about.task) == ("n3", 7)
    assert (event.speaker.node, event.speaker.task) == (None, None)


def test_of_two_entries_the_one_that_stands_first_in_the_table_counts(write: Write) -> None:
    path = write(
        "*** STEP 1.0 ON n1 CANCELLED AT 2026-11-30T11:00:00 DUE TO TIME LIMIT *** Connection closed by peer [x]\n"
    )
    assert only(path).known is TIME_LIMIT
    assert read_logs([path], ENTRIES[::-1], workers=0).events[0].known is PEER


def test_lines_that_differ_by_a_digit_that_counts_are_told_apart(write: Write) -> None:
    lines = [f"OSError: [Errno {number}] what" for number in (17, 27, 28, 29, 38, 82)]
    assert told(write("\n".join(lines) + "\n")) == [("storage.full", 3)]


def test_a_flood_of_one_line_is_kept_as_its_first_ones_and_its_last_and_their_number(write: Write) -> None:
    count = 2 * HEARD_AT_MOST
    path = write("".join(f"[rank0]: Connection closed by peer [10.0.0.{n % 10}]\n" for n in range(count)))
    events = read(path).events
    assert sum(event.count for event in events) == count
    assert len(events) == FIRST + 1
    assert [event.place.line for event in events[:3]] == [1, 2, 3]
    assert events[-1].place.line == count


def test_each_speaker_is_counted_by_itself(write: Write) -> None:
    path = write("".join(f"[rank{n % 4}]: Connection closed by peer [10.0.0.1]\n" for n in range(40)))
    by_rank = dict.fromkeys(range(4), 0)
    for event in read(path).events:
        assert event.speaker.rank is not None
        by_rank[event.speaker.rank] += event.count
    assert by_rank == {0: 10, 1: 10, 2: 10, 3: 10}


def test_more_kinds_of_events_than_there_is_room_for_are_counted_and_the_first_ones_kept(write: Write) -> None:
    path = write("".join(f"[rank{n}]: [Errno 28] full\n" for n in range(KINDS + 50)))
    report = read(path)
    assert report.files[0].left_out == 50
    assert len(report.events) == KINDS
    assert report.events[0].speaker.rank == 0


def test_consequences_without_number_leave_room_for_a_cause_that_comes_late(write: Write) -> None:
    floods = "".join(f"[rank{n}]: Connection closed by peer [10.0.0.1]\n" for n in range(2 * KINDS))
    assert read(write(floods + "[Errno 28] full\n")).events[-1].known is FULL


def test_a_progress_bar_makes_pieces_of_a_line_and_no_lines(write: Write) -> None:
    path = write("one\r\n 10%|█\r 20%|██\rNo space left on device\r 30%|███\nthree\nNo space left on device\r\n")
    assert told(path) == [("storage.full", 2), ("storage.full", 4)]
    assert read(path).files[0].lines == 4


def test_hours_of_a_progress_bar_without_a_newline_are_one_line(write: Write) -> None:
    bar = "".join(f"\r{n:7d}/9999999 [00:00<00:00, 1.00it/s]" for n in range(100_000))
    assert told(write(f"first\n{bar}\rNo space left on device\nlast")) == [("storage.full", 2)]


@pytest.mark.parametrize("before", [0, 1, LONG_LINE - 100, LONG_LINE + 5, 3 * LONG_LINE + 1, (1 << 20) - 10])
def test_what_a_very_long_line_says_is_told_once_wherever_it_stands(write: Write, before: int) -> None:
    path = write(b"x\n" + b"y" * before + b" No space left on device " + b"z" * (2 * LONG_LINE) + b"\nEnd\n")
    event = only(path)
    assert event.place.line == 2
    assert "No space left on device" in event.text
    assert len(event.text) < 400
    assert read(path).files[0].lines == 3


def test_junk_is_read_around(write: Write) -> None:
    junk = bytes(range(256)) * 20 + b"\n" + b"\0" * 5000
    assert told(write(junk + b"No space \xff\xfe left\nNo space left on de\0vice\n" + junk)) == [
        ("storage.full", 21 + 2)
    ]


def test_colours_are_no_part_of_what_is_said(write: Write) -> None:
    event = only(write("\x1b[1;31mOSError\x1b[0m: [Errno \x1b[36m28\x1b[0m] No \x1b[1mspace\x1b[0m left\n"))
    assert event.text == "OSError: [Errno 28] No space left"


def test_a_log_that_ends_in_the_middle_of_a_line_is_read_to_its_end_and_says_so(write: Write) -> None:
    path = write("one\ntwo\n[Errno 28] thr")
    (file,) = read(path).files
    assert (file.lines, file.ends_whole, file.last_words) == (3, False, "[Errno 28] thr")
    assert told(path) == [("storage.full", 3)]


def test_an_empty_log_has_no_lines_and_no_last_words(write: Write) -> None:
    (file,) = read(write("")).files
    assert (file.lines, file.last_words, file.size_bytes) == (0, "", 0)


def test_a_file_knows_its_first_and_its_last_time(write: Write) -> None:
    lines = ["hello", *(f"2026-11-29 20:00:{n:02d}+00:00 step" for n in range(10)), "", "bye", ""]
    (file,) = read(write("\n".join(lines))).files
    assert (file.first_s, file.last_s, file.last_words) == (1795982400.0, 1795982409.0, "bye")


def test_a_line_without_a_time_came_no_sooner_than_the_one_before_it_that_has_one(write: Write) -> None:
    path = write("2026-11-29 20:00:00+00:00 step\nhm\n[Errno 28] full\n2026-11-29 20:00:09+00:00 step\n")
    report = read(path)
    assert report.events[0].time_s is None
    assert report.not_before_s == {Place(str(path), 3): 1795982400.0}


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_logs_are_unpacked_whatever_they_are_called(write: Write, pack: Callable[[bytes], bytes]) -> None:
    assert told(write(pack(b"one\n[Errno 28] full\n"), "a.log.1")) == [("storage.full", 2)]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log_that_is_cut_short_is_read_as_far_as_it_goes(write: Write, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"[Errno 28] full\n" + os.urandom(1 << 16))
    report = read(write(packed[:-1000], "a.gz"))
    assert report.files[0].note is None or "a.gz is damaged" in report.files[0].note
    assert not report.files[0].ends_whole


def test_zstd_is_unpacked_or_refused_in_one_sentence(write: Write) -> None:
    report = read(write(b"\x28\xb5\x2f\xfd" + b"junk" * 9, "a.zst"))
    assert report.unreadable or "is damaged" in (report.files[0].note or "")


def test_pipes_sockets_and_devices_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        report = read(tmp_path / "pipe", tmp_path / "s", Path("/dev/zero"), tmp_path / "none", Path("a\0b"))
    assert [one.why.partition(" ")[2] for one in report.unreadable] == [
        "is a named pipe, not a log file",
        "is a socket, not a log file",
        "is a device, not a log file",
        "can't be read: No such file or directory",
        report.unreadable[4].why.partition(" ")[2],
    ]
    assert report.files == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(write: Write) -> None:
    path = write("x")
    path.chmod(0)
    assert read(path).unreadable[0].why == f"{path} can't be read: Permission denied"


def test_a_folder_stands_for_all_files_below_it_and_none_is_read_twice(write: Write, tmp_path: Path) -> None:
    write("[Errno 28]\n", "logs/b.log")
    path = write("[Errno 28]\n", "logs/deep/a.log")
    report = read(tmp_path / "logs", path)
    assert [Path(file.path).name for file in report.files] == ["b.log", "a.log"]


def test_only_what_came_since_is_read_and_lines_keep_their_numbers(write: Write) -> None:
    old = "[Errno 28] old\n" * 10
    path = write(old + "[Errno 28] new\n")
    (event,) = read(path, since={path: len(old)}).events
    assert (event.text, event.place.line) == ("[Errno 28] new", 11)


def test_a_file_that_was_cut_since_is_read_from_its_beginning(write: Write) -> None:
    path = write("[Errno 28] new\n")
    assert len(read(path, since={path: 1000}).events) == 1


def test_a_log_that_grows_meanwhile_is_read_to_the_size_that_it_had(write: Write) -> None:
    path = write("one\n" * 10)

    def grow(*_: int) -> None:
        with path.open("a") as file:
            file.write("[Errno 28]\n")

    report = read_logs([path], ENTRIES, workers=0, progress=grow)
    assert report.events == ()
    assert report.files[0].note == f"{path} is still growing: what came after byte 40 was not read"
    assert not report.files[0].ends_whole


def test_a_log_that_is_cut_meanwhile_is_read_as_far_as_it_is_there(write: Write) -> None:
    path = write(b"x" * 100 + b"\n" + b"y\n" * (2 << 20))
    report = read_logs([path], ENTRIES, workers=0, progress=lambda *_: os.truncate(path, 10))
    assert "was cut to" in (report.files[0].note or "")


def test_attempts_in_one_file_are_told_apart_and_one_can_be_asked_for(write: Write) -> None:
    path = write(
        "module load\n[Errno 28] before the first\n"
        "srun-resilient: attempt 1 of run /runs/a b (requeue), from the beginning\n[Errno 28] first\n"
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T11:00:00 DUE TO TIME LIMIT ***\n"
        "srun-resilient: attempt 2 of run /runs/a b (requeue), from step 7\n[Errno 28] second\n"
    )
    events = read(path).events
    assert [(event.speaker.attempt, event.speaker.job) for event in events] == [
        (None, None), (1, None), (1, "12"), (2, None),
    ]  # fmt: skip
    parts = [(part.attempt, part.run, part.job, part.first_line) for part in read(path).files[0].parts]
    assert parts == [(1, "/runs/a b", None, 3), (1, None, "12", 5), (2, "/runs/a b", None, 6)]
    assert [event.text for event in read(path, attempt=2).events] == ["[Errno 28] second"]
    assert len(read(path, attempt=1).events) == 3


def test_a_file_that_knows_no_attempts_is_of_every_attempt(write: Write) -> None:
    assert len(read(write("[Errno 28]\n"), attempt=7).events) == 1


def test_the_name_of_a_file_says_who_writes_it(write: Write) -> None:
    event = only(write("[Errno 28]\n", "slurm-123/rank_0007.log"))
    assert event.speaker.rank == 7
    assert only(write("[rank3]: [Errno 28]\n", "rank_0007.log")).speaker.rank == 3


def test_workers_say_the_same_as_one_process(write: Write, tmp_path: Path) -> None:
    for number in range(6):
        lines = f"[rank{number}]: [Errno 28] full\nWatchdog caught collective x SeqNum=9\n" * 30
        write(lines + "x\n" * 1000, f"l/{number}.log")
    seen: list[tuple[int, int]] = []
    alone = read_logs([tmp_path / "l"], ENTRIES, workers=0)
    together = read_logs([tmp_path / "l"], ENTRIES, workers=2, progress=lambda *so_far: seen.append(so_far))
    assert together == alone
    assert seen[-1] == (alone.read_bytes, alone.read_bytes)
    assert any(event.known is WATCHDOG for event in together.events)


def test_where_no_worker_can_be_started_one_process_reads_everything(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no semaphores")

    monkeypatch.setattr("slurm_resilience.triage.reading.workers.ProcessPoolExecutor", refuse)
    paths = [write("[Errno 28]\n", f"{number}.log") for number in range(4)]
    assert len(door.read_logs(paths, ENTRIES, workers=2).events) == 4


def test_a_kernel_line_and_a_task_line_are_both_heard_behind_labels(write: Write) -> None:
    path = write("Nov 30 11:00:00 n3 kernel: [  12.5] NVRM: Xid (PCI:0): 79\n12: srun: error: n1: task 0: Killed\n")
    first, second = read(path).events
    assert (first.speaker.node, first.known, second.known, second.speaker.task) == ("n3", XID, TASK, 12)


def test_a_flood_of_lines_that_a_number_makes_known_is_counted_too(write: Write) -> None:
    count = HEARD_AT_MOST
    lines = [f"[Errno {28 if n % 2 else 27}] {n}\n" for n in range(2 * count)]
    assert sum(event.count for event in read(write("".join(lines))).events) == count


def test_who_speaks_last_in_a_flood_is_not_overheard_for_long(write: Write) -> None:
    lines = ["[rank0]: Connection closed by peer [10.0.0.1]\n"] * 3000
    lines += ["[rank1]: Connection closed by peer [10.0.0.1]\n"] * 3000
    counts = {0: 0, 1: 0}
    for event in read(write("".join(lines))).events:
        assert event.speaker.rank is not None
        counts[event.speaker.rank] += event.count
    assert sum(counts.values()) == 6000
    assert abs(counts[0] - counts[1]) < 200


def test_who_goes_on_where_the_last_look_ended_needs_not_read_the_rest_again(write: Write) -> None:
    path = write("one\n[Errno 28] old\nunfini")
    (file,) = read(path).files
    with path.open("a") as log:
        log.write("shed\n[Errno 28] new\n")
    report = read_logs([path], ENTRIES, workers=0, since={path: file.size_bytes}, lines_before={path: file.line_ends})
    assert [(event.text, event.place.line) for event in report.events] == [("[Errno 28] new", 4)]
    assert (report.files[0].lines, report.files[0].line_ends, report.read_bytes) == (4, 4, 20)
