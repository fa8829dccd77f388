"""The quick search misses nothing that a slow one finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_resilience.triage.known.table import TABLE
from slurm_resilience.triage.reading.many_texts import ManyTexts
from slurm_resilience.triage.reading.meaning import blind_to_digits
from slurm_resilience.triage.reading.read_logs import read_logs
from slurm_resilience.triage.reading.sieve import DIGITS
from tests.unit.triage.reading.entries import ENTRIES

TEXTS = st.lists(st.binary(min_size=1, max_size=6).filter(lambda text: b"\n" not in text), max_size=20, unique=True)


@given(TEXTS, st.lists(st.binary(max_size=30), max_size=30))
def test_lines_with_a_text_are_found_and_no_others(texts: list[bytes], lines: list[bytes]) -> None:
    blob = b"\n".join(lines)
    wanted = [line for line in blob.split(b"\n") if any(text in line for text in texts)]
    search = ManyTexts(texts)
    for _ in range(2):  # before and after it has learnt what is rare
        assert list(search.lines_with_some(blob)) == wanted


@given(st.sampled_from(TABLE), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_what_an_entry_knows_its_blind_expression_knows_by_the_shape(entry: object, data: st.DataObject) -> None:
    assert hasattr(entry, "regex")
    line = data.draw(st.from_regex(entry.regex, alphabet=st.characters(codec="ascii", exclude_characters="\r\n")))
    blind = blind_to_digits(entry.regex)
    if blind is not None:
        assert re.search(blind, line.encode().translate(DIGITS).decode()) is not None


@pytest.mark.parametrize(
    ("regex", "blind"),
    [
        (r"\[Errno (?:5|28)\]", r"\[Errno (?:0|00)\]"),
        (r"\d{2,3} of [0-9]{4}", r"\d{2,3} of [0-9]{4}"),
        (r"(?P<rank2>\d+)x[1-3]", r"(?P<rank2>\d+)x[0-0]"),
        (r"a(?!1)b", None),
        (r"a[^5]b", None),
        (r"a[^0-9]b", r"a[^0-9]b"),
        (r"(a)\1", None),
        (r"\x41", None),
    ],
)
def test_an_expression_is_made_blind_to_digits_or_given_up(regex: str, blind: str | None) -> None:
    assert blind_to_digits(regex) == blind


LINES = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=40),
    st.sampled_from(
        [
            "srun: error: n3: task 7: Killed", "NVRM: Xid (PCI:0): 79", "NVRM: Xid none", "[Errno 28] x",
            "[Errno 27] x",
            "No space left on device", "Connection closed by peer [x]", "Connection closed by y", "exitcode  : -9",
            "exitcode  : -95", "Watchdog caught collective x SeqNum=4", "DUE TO", "step 1", "step 2 loss 0.7",
        ]
    ),
)  # fmt: skip


@given(st.lists(LINES, max_size=60), st.lists(st.integers(0, 99), max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_events_are_those_of_a_line_by_line_search(tmp_path: Path, lines: list[str], numbers: list[int]) -> None:
    lines = [f"{number}: {line}" for number, line in zip(numbers, lines, strict=False)] + lines
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines), newline="")
    wanted = 0
    for line in lines:
        wanted += any(re.search(entry.regex, line) for entry in ENTRIES)
    events = read_logs([path], ENTRIES, workers=0).events
    assert sum(event.count for event in events) == wanted
    for event in events:
        assert event.known is next(entry for entry in ENTRIES if re.search(entry.regex, lines[event.place.line - 1]))
