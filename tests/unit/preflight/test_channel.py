"""Laws of the framing: whole messages come back, each once, whatever stands between their parts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.channel import Collector, Message, lines_of

VALUES = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(max_size=40), max_size=4
)
NOISE = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=60)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Message], list[str]]:
    """Messages of several senders, and lines that hold all their parts: shuffled, glued to noise, some torn copies."""
    messages = [
        Message(draw(st.integers(-1, 3)), number, {**draw(VALUES), "n": "x" * draw(st.integers(0, 3000))})
        for number in range(draw(st.integers(0, 5)))
    ]
    lines = [
        line.rstrip("\n") for message in messages for line in lines_of(message.sender, message.number, message.value)
    ]
    torn = [line[: draw(st.integers(0, len(line) - 1))] for line in lines if draw(st.booleans())]
    mixed = draw(st.permutations([*lines, *torn, *draw(st.lists(NOISE, max_size=5))]))
    return messages, [f"{draw(NOISE)}{line}{draw(NOISE)}" if draw(st.booleans()) else line for line in mixed]


@given(conversations())
def test_any_mixture_of_whole_torn_and_foreign_lines_gives_back_exactly_the_whole_messages(
    conversation: tuple[list[Message], list[str]],
) -> None:
    messages, lines = conversation
    collector = Collector()
    heard = [message for line in lines for message in collector.hear(line)[0]]
    assert sorted(heard, key=lambda message: message.number) == messages


@given(VALUES, st.integers(0, 20000))
def test_every_line_is_short_enough_for_slurmstepd_not_to_split_it(value: dict[str, Any], length: int) -> None:
    lines = lines_of(99999, 10**8, {**value, "text": "".join(chr(33 + i * 7919 % 90) for i in range(length))})
    assert all(len(line) < 900 and line.isascii() and line.count("\n") == 1 for line in lines)


def test_a_message_that_is_heard_twice_counts_once() -> None:
    (line,) = lines_of(3, 1, {"kind": "card"})
    collector = Collector()
    assert len(collector.hear(line)[0]) == 1
    assert collector.hear(line)[0] == []


def test_a_letter_that_was_changed_on_the_way_makes_a_message_none() -> None:
    (line,) = lines_of(3, 1, {"kind": "card"})
    assert Collector().hear(line.replace(" 3 1 ", " 4 1 "))[0] == []


def test_what_others_print_comes_back_as_noise() -> None:
    (line,) = lines_of(3, 1, {})
    messages, noise = Collector().hear(f"Welcome to the cluster! {line.strip()} bye")
    assert len(messages) == 1
    assert noise == "Welcome to the cluster!  bye"


def test_two_messages_on_one_line_are_both_heard() -> None:
    line = "".join(part.strip() for number in (1, 2) for part in lines_of(0, number, {}))
    assert [message.number for message in Collector().hear(line)[0]] == [1, 2]


def test_more_parts_than_a_message_can_have_are_not_kept() -> None:
    collector = Collector()
    collector.hear("%pf1 0 1 1/999999999 00000000 AAAA%")
    assert collector == Collector()
