"""Arguments of resilience.so: what is good is in force, what is bad is named and the default stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.spank.arguments import Arguments, read_arguments

DEFAULTS = Arguments()


def test_no_argument_means_the_defaults() -> None:
    assert read_arguments((), DEFAULTS) == (DEFAULTS, ())


def test_every_argument_has_its_word() -> None:
    words = (
        "spool=/s relay=/r kill_wait=60 health=exclude health_dir=/h health_timeout=300 notes_keep_days=7 runtime=/run"
    ).split()
    expected = Arguments("/s", "/r", 60, "exclude", "/h", 300, 7, "/run")
    assert read_arguments(words, DEFAULTS) == (expected, ())


def test_the_relay_can_be_off() -> None:
    arguments, objections = read_arguments(["relay=off"], DEFAULTS)
    assert arguments.relay is None
    assert objections == ()


@pytest.mark.parametrize(
    "word",
    [
        "spol=/x",
        "Spool=/x",
        "spool",
        "spool=",
        "spool=relative",
        "relay=no",
        "kill_wait=30s",
        "kill_wait=-1",
        "kill_wait=",
        "health=yes",
        "health_timeout=0",
        "health_timeout=301",
        "notes_keep_days=ten",
        "notes_keep_days=٣",
        "",
    ],
)
def test_a_bad_argument_is_named_and_changes_nothing(word: str) -> None:
    arguments, objections = read_arguments([word, "health=warn"], DEFAULTS)
    assert arguments == Arguments(health="warn")
    (objection,) = objections
    assert f"`{word}`" in objection


@given(st.lists(st.text(max_size=30), max_size=5))
def test_no_words_break_the_reader(words: list[str]) -> None:
    arguments, objections = read_arguments(words, DEFAULTS)
    assert len(objections) <= len(words)
    assert 1 <= arguments.health_timeout_s <= 300
