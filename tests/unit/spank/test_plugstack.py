"""plugstack.conf is read as Slurm reads it: each case here was tried with Slurm 22.05.8."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.spank.plugstack import DEEPEST, Plugstack, read_plugstack

CONF = Path("/etc/slurm/plugstack.conf")


def read(texts: Mapping[str, str]) -> Plugstack:
    """The stack that begins in /etc/slurm/plugstack.conf, with `texts` as all the files there are."""

    def text_of(path: Path) -> str:
        if str(path) not in texts:
            raise FileNotFoundError(path)
        return texts[str(path)]

    def expand(pattern: str) -> list[Path]:
        return [Path(name) for name in sorted(texts) if fnmatch.fnmatch(name, pattern)]

    return read_plugstack(CONF, text_of, expand)


def lines(text: str) -> list[tuple[bool, str, tuple[str, ...]]]:
    return [(each.required, each.plugin, each.arguments) for each in read({str(CONF): text}).plugins]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# optional a.so", []),
        ("optional a.so", [(False, "a.so", ())]),
        ("required /lib/a.so", [(True, "/lib/a.so", ())]),
        ("  optional\ta.so  x=1\ty=2  ", [(False, "a.so", ("x=1", "y=2"))]),
        ("optional a.so x=1 # y=2", [(False, "a.so", ("x=1",))]),
        ("optional a.so x=1#y=2", [(False, "a.so", ("x=1",))]),
        ('optional a.so "x y"', [(False, "a.so", ('"x', 'y"'))]),
        ("optional a.so\nrequired b.so\n", [(False, "a.so", ()), (True, "b.so", ())]),
        ("optional a.so\noptional a.so", [(False, "a.so", ()), (False, "a.so", ())]),
    ],
)
def test_a_line_says_what_slurm_makes_of_it(text: str, expected: list[tuple[bool, str, tuple[str, ...]]]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Optional a.so", "`Optional` is neither"),
        ("optionally a.so", "`optionally` is neither"),
        ("optional", "`optional` names nothing"),
        ("include  # a comment", "`include` names nothing"),
        ("optional a.so\r\n", "CR LF"),
    ],
)
def test_what_slurm_complains_of_is_named_with_its_line(text: str, word: str) -> None:
    (unreadable,) = read({str(CONF): f"\n{text}"}).unreadable
    assert unreadable.sentence.startswith(f"{CONF}:2: ")
    assert word in unreadable.sentence


def test_a_missing_file_is_an_empty_one() -> None:
    assert read({}) == Plugstack((), (), (), ())


def test_an_include_takes_every_file_of_its_glob_in_order_and_from_its_own_folder() -> None:
    stack = read(
        {
            str(CONF): "optional first.so\ninclude plugstack.conf.d/*.conf\noptional last.so",
            "/etc/slurm/plugstack.conf.d/b.conf": "optional b.so",
            "/etc/slurm/plugstack.conf.d/a.conf": "optional a.so",
            "/etc/slurm/plugstack.conf.d/a.conf.rpmsave": "optional old.so",
        }
    )
    assert [each.plugin for each in stack.plugins] == ["first.so", "a.so", "b.so", "last.so"]
    assert stack.plugins[1].place == "/etc/slurm/plugstack.conf.d/a.conf:1"
    assert stack.includes == ("/etc/slurm/plugstack.conf.d/*.conf",)
    assert len(stack.files) == 3


def test_an_include_that_names_nothing_is_no_complaint() -> None:
    assert read({str(CONF): "include /nowhere/*"}).unreadable == ()


def test_a_file_that_includes_itself_is_named_and_ends() -> None:
    stack = read({str(CONF): f"include {CONF}"})
    assert [each.why for each in stack.unreadable] == [f"more than {DEEPEST} files include one another"]


def test_a_file_that_may_not_be_read_is_named() -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    (unreadable,) = read_plugstack(CONF, refuse, lambda _: []).unreadable
    assert unreadable.sentence == f"{CONF}: it can't be read (Permission denied)"


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader_and_every_line_is_taken_or_named_or_a_comment(text: str) -> None:
    stack = read({str(CONF): text})
    said = [line.partition("#")[0].strip(" \t\r") for line in text.split("\n")]
    meant = {number for number, line in enumerate(said, start=1) if line and line.split()[:1] != ["include"]}
    heard = {each.line for each in stack.plugins} | {each.line for each in stack.unreadable}
    assert meant <= heard
