"""torchrun's table of failures (ChildFailedError), which each agent writes about its own ranks. Pure.

What it calls the root cause is the first failure that this agent saw. A rank that died first on another node isn't in
it, so the tables of all agents have to be looked at together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from slurm_resilience.triage.event import Place, Speaker
from slurm_resilience.triage.reading.log_report import RankFailure
from slurm_resilience.triage.reading.speakers import number
from slurm_resilience.triage.reading.tracebacks import Part, traceback_begun

BEGIN = "ChildFailedError"
FAILURES = "Failures:"
"""Its first line below the title, which is all that there is where somebody else prints the exception's message."""
ROOT = "Root Cause (first observed failure):"
_LINES_AT_MOST = 100_000
_NOT_OF_IT = 3
"""Lines without the table's look, before it is taken to have begun at all."""
_RULE = re.compile(r"[=-]{20,}\s*$")
_ITEM = re.compile(r"\s*\[(\d{1,7})\]:\s*$")
_FIELD = re.compile(r"\s*(time|host|rank|exitcode|error_file|traceback)\s*: ?(.*)$")
_RANK = re.compile(r"(\d+)(?: \(local_rank: (\d+)\))?")
_EXIT = re.compile(r"(-?\d+)(?: \(pid: (\d+)\))?(?:\s*\((SIG\w+)\))?")
_NO_OTHER = "<NO_OTHER_FAILURES>"
_NO_NEWS = ("To enable traceback see", "Signal ", "<N/A>")
WORDS = 300


@dataclass(frozen=True, slots=True)
class Row:
    failure: RankFailure
    message_line: int | None
    """Where the exception stands that its rank told; None where it told none."""


@dataclass(slots=True)
class Table:
    """Open from the line that names ChildFailedError until it is `over`."""

    speaker: Speaker
    rows: list[Row] = field(default_factory=list)
    over: bool = False
    begun: bool = False
    headless: bool = False
    """Taken up below its title: anybody may write such a line, so the next one has to be torchrun's."""
    _root: bool = False
    _lines: int = 0
    _strange: int = 0
    _item: list[tuple[int, str]] = field(default_factory=list)

    def take(self, text: str, line: int) -> bool:
        """The next line of the same speaker; False where it is not of the table."""
        self._lines += 1
        text = text.rstrip()
        if self.headless and self._lines == 1 and not _ITEM.match(text) and _NO_OTHER not in text:
            self.over = True
            return False
        if _RULE.match(text):
            self._close_item()
            self.over = self.begun and self._root and text[0] == "="
            self.begun = True
            return True
        if not self.begun:
            self._strange += 1
            self.over = self._strange > _NOT_OF_IT
            return not text
        if text.startswith((ROOT, FAILURES)):
            self._close_item()
            self._root = text.startswith(ROOT)
        elif _ITEM.match(text):
            self._close_item()
            self._item = [(line, text)]
        elif self._item:
            self._item.append((line, text))
        elif text and not text.endswith("FAILED") and _NO_OTHER not in text:
            self._strange += 1
            if self._strange > _NOT_OF_IT:
                self.over = True
                return False
        if self._lines > _LINES_AT_MOST:
            self.end()
        return True

    def end(self) -> None:
        """Nothing more comes: it was cut there, or the file ends."""
        self._close_item()
        self.over = True

    def _close_item(self) -> None:
        if self._item:
            row = _row(self._item, self._root)
            if row is not None:
                failure = replace(row.failure, speaker=self.speaker, place=Place("", self._item[0][0]))
                self.rows.append(Row(failure, row.message_line))
        self._item = []


def table_begun(said: str, speaker: Speaker) -> Table | None:
    """With the line that names ChildFailedError, or without one with the first line below the title."""
    text = said.rstrip()
    if text == FAILURES:
        return Table(speaker, begun=True, headless=True)
    return Table(speaker) if BEGIN in text and text.endswith(":") else None


def failures_in(lines: Iterable[str]) -> list[RankFailure]:
    """Of all tables in a text, without anything put before its lines; `place.line` counts from 1."""
    found: list[RankFailure] = []
    table: Table | None = None
    for at, line in enumerate(lines, 1):
        if table is not None:
            table.take(line, at)
            if table.over:
                found += (row.failure for row in table.rows)
                table = None
        else:
            table = table_begun(line, Speaker())
    if table is not None:
        table.end()
        found += (row.failure for row in table.rows)
    return found


def _row(item: list[tuple[int, str]], root: bool) -> Row | None:
    """None: no rank stands in it."""
    values: dict[str, str] = {}
    told: list[tuple[int, str]] = []
    for line, text in item[1:]:
        found = None if told else _FIELD.match(text)
        if found is not None:
            values[found[1]] = found[2].strip()
        if told or (found is not None and found[1] == "traceback"):
            told.append((line, text if told else found[2] if found is not None else ""))
    rank = _RANK.match(values.get("rank", ""))
    if rank is None or number(rank[1]) is None:
        return None
    ended = _EXIT.match(values.get("exitcode", ""))
    message_line, message = _exception(told)
    exitcode = None if ended is None or len(ended[1]) > 10 else int(ended[1])
    failure = RankFailure(
        rank=int(rank[1]),
        local_rank=number(rank[2]),
        host=_unless_unknown(values.get("host")),
        exitcode=exitcode,
        signal=None if ended is None else ended[3],
        pid=None if ended is None else number(ended[2]),
        time_s=_time_s(values.get("time", "")),
        error_file=_unless_unknown(values.get("error_file")),
        message=message,
        root=root,
    )
    return Row(failure, message_line)


def _exception(told: list[tuple[int, str]]) -> tuple[int | None, str | None]:
    if not told or told[0][1].startswith(_NO_NEWS) or not told[0][1].strip():
        return None, None
    traceback = traceback_begun(told[0][1])
    if traceback is None:  # a message without its traceback
        return told[0][0], told[0][1].strip()[:WORDS]
    traceback.margin = "  "
    for line, text in told[1:]:
        if traceback.take(text, line) is Part.NOT_MINE:
            break
    if not traceback.links:
        return None, None
    return traceback.links[-1].line, traceback.links[-1].text[:WORDS]


def _unless_unknown(text: str | None) -> str | None:
    return None if text in (None, "", "<N/A>", "N/A") else text


def _time_s(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d_%H:%M:%S").timestamp()  # noqa: DTZ007 - torchrun names no zone
    except (ValueError, OverflowError, OSError):
        return None
