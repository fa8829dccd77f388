"""Python's tracebacks, line by line as they come: which exception ended it, and which was first. Pure.

Of a chain of exceptions the last counts: it is the one that nobody caught. Several ranks may write at once, where each
line says whose it is: each has a `Traceback` of its own. One that a program only prints, and lives on, looks the same.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

BEGIN = "Traceback (most recent call last):"
FRAMED = "─ Traceback (most recent call last) ─"
"""So `rich` begins one, in a frame of lines."""
UNRAISABLE = (
    "Exception ignored ",
    "--- Logging error ---",
    "Error in atexit._run_exitfuncs",
    "Error in sys.excepthook",
)
"""What stands before a traceback that ended nothing: Python prints it, and goes on with what it was at."""
_GROUP_BEGIN = "Exception Group Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,100}\.){0,20}[A-Za-z_]\w{0,100}(?::(?: |$)|$)")
_IN_FRAMES = (" ", "\t", "│", "╭", "╰", "> File ", "[Previous line repeated")
"""How lines of frames begin: Python's, `rich`'s, loguru's."""
_IN_GROUP = re.compile(r"\s*[|+](?:-\+)?[- ]?")
_QUOTED = re.compile(r"(?:[^\"\\]|\\.)*")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_AFTER = 20
"""Lines after an exception in which its message may go on, or another exception be chained to it."""
_FRAMES = 4000
"""Lines of one traceback: Python folds a recursion's."""


class _State(enum.Enum):
    FRAMES = enum.auto()
    RAISED = enum.auto()
    CHAINED = enum.auto()


class Part(enum.Enum):
    """What a line was of the traceback that it was given to."""

    INSIDE = enum.auto()  # frames and source text: no news of its own
    EXCEPTION = enum.auto()
    MESSAGE = enum.auto()  # perhaps of the exception; perhaps something else
    NOT_MINE = enum.auto()


@dataclass(frozen=True, slots=True)
class Link:
    """One exception of a chain."""

    text: str
    line: int


@dataclass(slots=True)
class Traceback:
    """Open from its first line until it is `over`."""

    margin: str = ""
    """What stands before each of its lines, as blanks of a table, or a label that we don't know (`n2: `)."""
    before: str = ""
    """What stands before its first line, until its next one shows whether that is its margin."""
    links: list[Link] = field(default_factory=list)
    inner: Link | None = None
    """The first exception of a group of them."""
    over: bool = False
    lines: int = 0
    _state: _State = _State.FRAMES
    _group: bool = False
    _after: int = 0

    def take(self, text: str, line: int) -> Part:
        """The next line of the same speaker."""
        self.lines += 1
        text = text.rstrip()
        if not text.strip():
            return Part.INSIDE if self._state is _State.FRAMES else Part.MESSAGE
        if self.before:
            if not text.startswith((self.before, *_IN_FRAMES)):  # somebody else's, or it was cut short
                self.over = self.lines > _AFTER
                return Part.NOT_MINE
            if text.startswith(self.before):
                self.margin = self.before
            self.before = ""
        if not text.startswith(self.margin):
            self.over = self.margin.isspace() or self.lines > _FRAMES  # behind a label others may write in between
            return Part.NOT_MINE
        text = text[len(self.margin) :]
        if self._group:
            return self._take_of_group(text, line)
        match self._state:
            case _State.FRAMES:
                return self._take_frame(text, line)
            case _State.RAISED:
                return self._take_after(text)
            case _State.CHAINED:
                return self._take_chained(text)

    def _take_frame(self, text: str, line: int) -> Part:
        if text.startswith(_IN_FRAMES):
            self.over = self.lines > _FRAMES
            return Part.INSIDE
        if _EXCEPTION.match(text) is None:  # cut short, or not one
            self.over = True
            return Part.NOT_MINE
        self.links.append(Link(text, line))
        self._state, self._after = _State.RAISED, 0
        return Part.EXCEPTION

    def _take_after(self, text: str) -> Part:
        if text.startswith(_CHAINED):
            self._state, self._after = _State.CHAINED, 0
            return Part.INSIDE
        if BEGIN in text or FRAMED in text:  # somebody's next one, not chained to this
            self.over = True
            return Part.NOT_MINE
        self._after += 1
        self.over = self._after >= _AFTER
        return Part.MESSAGE

    def _take_chained(self, text: str) -> Part:
        if text.endswith(_GROUP_BEGIN):
            self._group, self._state = True, _State.FRAMES
            return Part.INSIDE
        if text.endswith(BEGIN) or FRAMED in text:
            self._state = _State.FRAMES
            return Part.INSIDE
        self._after += 1
        self.over = self._after >= _AFTER
        return Part.MESSAGE

    def _take_of_group(self, text: str, line: int) -> Part:
        drawn = _IN_GROUP.match(text)
        if drawn is None:
            if text.startswith(_CHAINED):
                self._group, self._state = False, _State.CHAINED
                return Part.INSIDE
            self.over = True
            return Part.NOT_MINE
        said = text[drawn.end() :]
        if said[:1] in ("", " ", "-") or said.endswith(BEGIN) or _EXCEPTION.match(said) is None:
            return Part.INSIDE
        if self._state is _State.FRAMES:
            self.links.append(Link(said, line))
            self._state = _State.RAISED
            return Part.EXCEPTION
        if self.inner is None:
            self.inner = Link(said, line)
        return Part.INSIDE

    @property
    def in_frames(self) -> bool:
        """Indented lines are of it."""
        return self._state is _State.FRAMES and not self._group and not self.margin and not self.before

    @property
    def first(self) -> Link | None:
        """Which exception was there before the last: the group's first, or the chain's."""
        if self.inner is not None:
            return self.inner
        return self.links[0] if len(self.links) > 1 else None


def told_in_one_line(text: str) -> str | None:
    """The exception of a traceback whose ends of lines are written as `\\n`: in JSON, in a `repr`."""
    _, begin, rest = text.partition(BEGIN + "\\n")
    inside = _QUOTED.match(rest) if begin else None
    lines = [] if inside is None else inside[0].split("\\n")
    return next((line for line in reversed(lines) if line[:1] not in ("", " ") and _EXCEPTION.match(line)), None)


def traceback_begun(text: str) -> Traceback | None:
    """Whether the line begins one, perhaps behind a progress bar that ended without a newline."""
    at = text.find(BEGIN)
    if at < 0:
        return Traceback() if FRAMED in text else None
    if text[at + len(BEGIN) :].strip():  # all of it in one line
        return None
    group = text.rfind(_GROUP_BEGIN, 0, at + len(BEGIN))
    if group >= 0:
        return Traceback(_group=True)
    before = text[:at]
    return Traceback(margin=before) if before.isspace() else Traceback(before=before)
