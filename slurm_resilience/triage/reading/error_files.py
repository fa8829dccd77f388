"""What a rank left of its last exception: torchrun's `error.json` (@record), our `error-rank-00003.txt`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_resilience.triage.event import Event, Place, Speaker
from slurm_resilience.triage.reading.log_report import FileRead
from slurm_resilience.triage.reading.matcher import Matcher, excerpt
from slurm_resilience.triage.reading.one_file import OneFile
from slurm_resilience.triage.reading.source import NotReadable, Source
from slurm_resilience.triage.reading.speakers import together
from slurm_resilience.triage.reading.tracebacks import Part, Traceback, traceback_begun

_OURS = re.compile(r"error-rank-(\d{1,7})\.txt")
_AT_MOST_BYTES = 4 << 20

_Exception = tuple[str, str | None, int]
"""Its line, the line of what caused it, and the number of the first."""


def read_error_file(path: Path, by_name: Speaker, matcher: Matcher) -> OneFile | None:
    """None: it is none, or it is not whole; then it may be read as any other log."""
    ours = _OURS.fullmatch(path.name)
    if ours is None and path.name != "error.json":
        return None
    try:
        with Source(path) as source:
            if source.size_bytes > _AT_MOST_BYTES:
                return None
            text = b"".join(source.chunks()).decode(errors="replace")
            changed_s, size_bytes = source.changed_s, source.size_bytes
    except NotReadable:
        return None
    if ours is not None:
        exception: _Exception = _of_traceback(text)
        time_s: float | None = changed_s
        by_name = together(Speaker(rank=int(ours[1])), by_name)
    else:
        told = _of_json(text)
        if told is None:
            return None
        exception, time_s = told
    lines = text.count("\n") + 1
    file = FileRead(str(path), size_bytes, lines, time_s, time_s, exception[0], ends_whole=True, speaker=by_name)
    line, cause, at = exception
    if not line:
        return OneFile(file=file)
    matched = matcher.find(range(len(matcher.table)), line, line)
    groups = () if matched is None else matched.groups
    if cause is not None:
        groups = (*groups, ("caused_by", cause))
    event = Event(Place(str(path), at), excerpt(line, 0), None, by_name, time_s=time_s, groups=groups)
    if matched is not None:
        event = replace(event, known=matched.entry, about=matched.about)
    return OneFile(events=(event,), file=file)


def _of_json(text: str) -> tuple[_Exception, float | None] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    told = value.get("message") if isinstance(value, dict) else None
    if isinstance(told, str):  # the elder form
        return (_first_line(told), None, 1), None
    if not isinstance(told, dict):
        return None
    extra = told.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    stack, stamp = extra.get("py_callstack"), extra.get("timestamp")
    message = _first_line(str(told.get("message", "")))
    cause = None
    if isinstance(stack, str):
        line, cause, _ = _of_traceback(stack)
        message = message or line
    time_s = float(stamp) if isinstance(stamp, str | int) and re.fullmatch(r"\d{1,12}", str(stamp)) else None
    return (message, cause, 1), time_s


def _of_traceback(text: str) -> _Exception:
    open_: Traceback | None = None
    found: _Exception = ("", None, 1) if not text.strip() else (_last_line(text), None, text.rstrip().count("\n") + 1)
    for number, line in enumerate(text.splitlines(), 1):
        part = Part.NOT_MINE if open_ is None else open_.take(line, number)
        if part is Part.NOT_MINE:
            open_ = traceback_begun(line) or open_
        if open_ is not None and open_.links:
            cause = open_.first
            found = (open_.links[-1].text[:300], cause.text[:300] if cause else None, open_.links[-1].line)
    return found


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:300]


def _last_line(text: str) -> str:
    return text.strip().rsplit("\n", 1)[-1][:300]
