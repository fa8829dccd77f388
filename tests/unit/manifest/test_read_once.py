from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ManifestDamaged
from slurm_resilience.manifest.encoding import decode, encode
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.read_once import ReadOnce
from slurm_resilience.manifest.records import Line, RunCreated, RunId, SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.manifest.text import parse

PATH = Path("manifest.jsonl")


def line(seq: int, why: str = "no space") -> bytes:
    record = RunCreated(RunId("abc"), "run") if seq == 1 else SaveFailed(1, seq, why)
    return encode(Line(seq, 1.5, record))


FIRST, GROWN = line(1) + line(2), line(1) + line(2) + line(3)


@pytest.mark.parametrize(
    "raw",
    [
        FIRST,
        GROWN,
        GROWN + line(4)[:-9],
        line(1),
        line(1) + line(2, "something else") + line(3),
        line(1) + line(2, "no inode") + line(3),  # as long as the line that was taken back
    ],
    ids=["the same", "grown", "torn", "shorter", "another", "another of the same length"],
)
def test_whatever_has_become_of_the_bytes_the_lines_are_theirs(raw: bytes) -> None:
    once = ReadOnce()
    assert once.lines(PATH, FIRST) == list(parse(PATH, FIRST).lines)
    assert once.lines(PATH, raw) == list(parse(PATH, raw).lines)
    assert once.lines(PATH, GROWN) == list(parse(PATH, GROWN).lines)


def test_what_is_damaged_is_refused_by_its_line() -> None:
    once = ReadOnce()
    once.lines(PATH, FIRST)
    for damaged in (FIRST + line(4), FIRST + b"x" + line(3) + line(4), b"x" + GROWN):
        with pytest.raises(ManifestDamaged) as whole:
            parse(PATH, damaged)
        with pytest.raises(ManifestDamaged, match=f"line {whole.value.line}:"):
            once.lines(PATH, damaged)


def test_who_remembers_parses_no_line_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last words of an attempt have three seconds, and a long run's journal takes longer than one to parse."""
    parsed: list[bytes] = []

    def counted(raw: bytes) -> Line:
        parsed.append(raw)
        return decode(raw)

    monkeypatch.setattr("slurm_resilience.manifest.text.decode", counted)
    journal = Journal(RunDirectory(tmp_path / "run"))
    journal.create("test")
    journal.append(*(SaveFailed(1, step, "no space") for step in range(100)))
    parsed.clear()
    with journal.remembering():
        before = journal.read()
        with journal.writing() as writer:
            assert writer.lines() == before
            appended = writer.append(SaveFailed(1, 100, "no space"))
            assert writer.lines() == [*before, *appended]
        assert journal.read() == [*before, *appended]
    assert len(parsed) == 102
