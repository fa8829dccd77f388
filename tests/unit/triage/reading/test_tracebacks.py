from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.triage.reading.read_logs import read_logs
from tests.unit.triage.reading.entries import ENTRIES, FULL

Told = tuple[str, str | None, int]


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str], list[Told]]:
    def of(text: str) -> list[Told]:
        path = tmp_path / "a.log"
        path.write_text(text)
        return [
            (event.text, dict(event.groups).get("caused_by"), event.place.line)
            for event in read_logs([path], ENTRIES, workers=0).events
        ]

    return of


def raised_by(program: str) -> str:
    """What this Python writes when it ends by an exception."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    return done.stderr


PLAIN = """\
Traceback (most recent call last):
  File "train.py", line 3, in main
    raise OSError("ChildFailedError: [Errno 28] No space left")
          ^^^^^^^^^^^^^
{}
"""

Tell = Callable[[str], list[Told]]


def test_an_exception_that_no_entry_knows_is_an_event(told: Tell) -> None:
    assert told("before\n" + PLAIN.format("my.pkg.BadError: what") + "after\n") == [("my.pkg.BadError: what", None, 6)]


def test_source_text_in_a_traceback_is_not_what_happened(told: Tell) -> None:
    assert told(PLAIN.format("KeyError: 'x'")) == [("KeyError: 'x'", None, 5)]


def test_an_exception_without_a_message_counts_too(told: Tell) -> None:
    assert told(PLAIN.format("AssertionError")) == [("AssertionError", None, 5)]


def test_of_a_message_of_several_lines_the_first_is_quoted(told: Tell) -> None:
    assert told(PLAIN.format("ValueError: bad:\n  shape (3, 4)\nwanted (4, 3)")) == [("ValueError: bad:", None, 5)]


def test_what_stands_in_a_message_is_still_known(told: Tell) -> None:
    events = told(PLAIN.format("torch.distributed.DistBackendError: NCCL error in:\nLast error:\n[Errno 28] no space"))
    assert [text for text, _, _ in events] == [
        "torch.distributed.DistBackendError: NCCL error in:",
        "[Errno 28] no space",
    ]


def test_a_traceback_that_is_cut_short_is_no_exception(told: Tell) -> None:
    assert told('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n2026-11-30 step 4\n') == []
    assert told('Traceback (most recent call last):\n  File "a.py", line') == []


@pytest.mark.parametrize(
    ("program", "text", "cause"),
    [
        ("raise ValueError('a')", "ValueError: a", None),
        ("try:\n  {}['k']\nexcept KeyError as e:\n  raise OSError('b') from e", "OSError: b", "KeyError: 'k'"),
        ("try:\n  {}['k']\nexcept KeyError:\n  1/0", "ZeroDivisionError: division by zero", "KeyError: 'k'"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded", None),
        ("class E(Exception): pass\nE.__module__='x.y'\nraise E('a\\n\\n  b\\nc')", "x.y.E: a", None),
    ],
)  # fmt: skip
def test_what_this_python_writes_is_understood(told: Tell, program: str, text: str, cause: str | None) -> None:
    (event,) = told(raised_by(program))
    assert (event[0].split(" while")[0], event[1]) == (text, cause)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 has no groups")
def test_a_group_counts_with_the_first_of_its_exceptions(told: Tell) -> None:
    program = "raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])"
    (event,) = told(raised_by(program) + "after\n")
    assert event[:2] == ("ExceptionGroup: two (2 sub-exceptions)", "ValueError: a")


def test_of_a_chain_the_last_counts_with_what_is_known_of_an_earlier_one(tmp_path: Path) -> None:
    chain = PLAIN.format("OSError: [Errno 28] full")
    chain += "\nDuring handling of the above exception, another exception occurred:\n\n" + PLAIN.format("SaveError: x")
    path = tmp_path / "a.log"
    path.write_text(chain)
    (event,) = read_logs([path], ENTRIES, workers=0).events
    assert (event.text, event.known, event.groups) == (
        "SaveError: x",
        FULL,
        (("caused_by", "OSError: [Errno 28] full"),),
    )


def test_two_exceptions_that_are_not_chained_are_two(told: Tell) -> None:
    assert [text for text, _, _ in told(PLAIN.format("A: 1") + PLAIN.format("B: 2"))] == ["A: 1", "B: 2"]


def test_ranks_that_write_line_by_line_at_once_are_told_apart(tmp_path: Path) -> None:
    tracebacks = [PLAIN.format(f"E{rank}: of {rank}").splitlines() for rank in range(3)]
    path = tmp_path / "a.log"
    path.write_text("".join(f"[rank{rank}]: {lines[at]}\n" for at in range(5) for rank, lines in enumerate(tracebacks)))
    events = read_logs([path], ENTRIES, workers=0).events
    assert [(event.speaker.rank, event.text) for event in events] == [(0, "E0: of 0"), (1, "E1: of 1"), (2, "E2: of 2")]


@pytest.mark.parametrize("label", ["0: ", "12: ", "[rank0]: ", "[default3]:", "3: [default0]:[rank12]: "])
def test_labels_before_each_line_change_nothing(told: Tell, label: str) -> None:
    chain = PLAIN.format("A: 1") + "\nThe above exception was the direct cause of the following exception:\n\n"
    lines = (chain + PLAIN.format("B: 2")).splitlines()
    # torch leaves its label out before an empty line, and others their blank.
    empty = label.partition("[rank")[0].rstrip()
    labelled = "".join(label + line + "\n" if line else empty + "\n" for line in lines)
    assert told(labelled) == [("B: 2", "A: 1", 13)]


def test_a_traceback_behind_what_was_left_without_a_newline_is_found(told: Tell) -> None:
    assert [text for text, _, _ in told("loading … " + PLAIN.format("A: 1"))] == ["A: 1"]


def test_a_traceback_behind_a_progress_bar_is_found(told: Tell) -> None:
    assert [text for text, _, _ in told("\r 10%|█ | 1/10 [00:01]" + PLAIN.format("A: 1"))] == ["A: 1"]


def test_others_may_write_between_a_traceback_and_its_exception(told: Tell) -> None:
    lines = PLAIN.format("A: 1").splitlines()
    text = "".join(f"[rank1]: {line}\n[rank0]: step {at}\n" for at, line in enumerate(lines))
    assert [text for text, _, _ in told(text)] == ["A: 1"]


@pytest.mark.parametrize(
    "line",
    [
        "terminate called after throwing an instance of 'c10::Error'",
        "Fatal Python error: Segmentation fault",
        "*** stack smashing detected ***: terminated",
        "python: model.cc:12: void f(): Assertion `n > 0' failed.",
        "double free or corruption (!prev)",
        "/var/spool/slurmd/job1/slurm_script: line 3:  1234 Segmentation fault      (core dumped) python train.py",
        "free(): invalid pointer",
        "thread 'main' panicked at src/main.rs:2:5:",
    ],
)
def test_a_process_that_the_c_library_or_the_interpreter_ends_is_an_event(told: Tell, line: str) -> None:
    assert told(f"step 1\n[rank0]: {line}\n") == [(line, None, 2)]
    assert told(line.replace("1", "7") + "\n")[0][2] == 1


@pytest.mark.parametrize("label", ["n2: ", "trainer-1  | "])
def test_labels_that_nobody_knows_change_nothing_though_others_write_in_between(told: Tell, label: str) -> None:
    lines = PLAIN.format("A: 1").splitlines()
    text = "".join(f"{label}{line}\nn1: step {at}\n" for at, line in enumerate(lines))
    assert [text for text, _, _ in told(text)] == ["A: 1"]


RICH = """\
╭──────────── Traceback (most recent call last) ─────────────╮
│ /home/me/train.py:9 in <module>                            │
│ ❱ 9 main()                                                 │
╰────────────────────────────────────────────────────────────╯
{}
"""
LOGURU = """\
Traceback (most recent call last):

> File "train.py", line 3, in <module>
    main()
    └ <function main at 0x7f>

{}
"""


@pytest.mark.parametrize("drawn", [RICH, LOGURU])
def test_other_programs_draw_tracebacks_otherwise(told: Tell, drawn: str) -> None:
    assert [text for text, _, _ in told("step 1\n" + drawn.format("ValueError: bad") + "step 2\n")] == [
        "ValueError: bad"
    ]


@pytest.mark.parametrize(
    "head",
    [
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f1>",
        "Exception ignored while calling deallocator <function A.__del__ at 0x7f1>:",
        "--- Logging error ---",
    ],
)
def test_what_python_prints_of_an_exception_that_ended_nothing_is_no_event(told: Tell, head: str) -> None:
    ignored = f"{head}\n" + PLAIN.format("AssertionError: can only test a child process")
    assert told(f"step 1\n{ignored * 300}") == []
    assert [text for text, _, _ in told(ignored + PLAIN.format("A: 1"))] == ["A: 1"]


def test_a_traceback_in_one_line_of_json_is_found_and_opens_nothing(told: Tell) -> None:
    quoted = r"Traceback (most recent call last):\n  File \"t.py\", line 3\n    f()\nValueError: bad value\n"
    line = f'{{"level": "ERROR", "rank": 3, "exc": "{quoted}", "host": "n1"}}\n'
    assert told('{"step": 1}\n' + line + PLAIN.format("A: 1")) == [
        ("ValueError: bad value", None, 2),
        ("A: 1", None, 7),
    ]
