"""Programs are run to their end, whatever they say and read."""

import sys

import pytest

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut


def python(program: str, *, given: str | None = None, undecodable: str = "replace") -> Completed:
    return run([sys.executable, "-c", program], timeout_s=100, given=given, undecodable=undecodable)


def test_what_is_given_is_read_byte_for_byte_and_comes_back_so() -> None:
    text = "caf\u00e9 \udcff\udcfe no end of line"
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert python(copy, given=text, undecodable="surrogateescape").out == text


def test_where_nothing_is_given_there_is_nothing_to_read() -> None:
    assert python("import sys; print(repr(sys.stdin.read()))").out == "''\n"


def test_a_complaint_can_be_printed_whatever_bytes_are_in_it() -> None:
    done = python(r"import sys; sys.stderr.buffer.write(b'bad \xff\n'); sys.exit(3)", undecodable="surrogateescape")
    assert done.code == 3
    assert done.complaint.encode().endswith(b"left with 3: bad ?")


def test_a_program_that_is_not_there_and_one_that_says_nothing_are_told_apart() -> None:
    with pytest.raises(CommandMissing):
        run(["/nonexistent/program"], timeout_s=1)
    with pytest.raises(CommandTimedOut):
        run(["sleep", "60"], timeout_s=0.1)


def test_a_program_that_the_system_refuses_to_start_is_told_as_one_that_can_not_be_run() -> None:
    """No process to be had (EAGAIN), or, here, too much to say to it (E2BIG)."""
    with pytest.raises(CommandMissing, match="'true' can't be run here: Argument list too long"):
        run(["true", "x" * 3_000_000], timeout_s=1)
