"""plugstack.conf, read as Slurm reads it (spank(8); src/common/spank.c). Pure: files come in through two functions.

A line is `required|optional PLUGIN ARGUMENT...` or `include GLOB`; `#` begins a comment wherever it stands; words are
split at blanks, and nothing can be quoted. A glob that isn't absolute begins in the folder of the file it stands in. A
line that Slurm can't read is said and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DEEPEST = 16
"""Includes within includes. Slurm has no limit and overflows its stack where a file includes itself."""

ReadFile = Callable[[Path], str]
"""The text of a file. Raises OSError."""
Expand = Callable[[str], Sequence[Path]]
"""The files that an absolute glob names, in the order in which Slurm takes them. None: nothing."""


@dataclass(frozen=True, slots=True)
class PluginLine:
    """One plugin that Slurm is told to load."""

    required: bool
    plugin: str
    """As it stands there: a path, or a name to be looked for in PluginDir."""
    arguments: tuple[str, ...]
    file: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What Slurm complains of too, at every command."""

    file: Path
    line: int | None
    """None: the whole file."""
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.file}{'' if self.line is None else f':{self.line}'}: {self.why}"


@dataclass(frozen=True, slots=True)
class Plugstack:
    plugins: tuple[PluginLine, ...]
    """In the order in which they are called."""
    files: tuple[Path, ...]
    """Every file that was read, the first one included."""
    includes: tuple[str, ...]
    """The globs of all include lines, made absolute."""
    unreadable: tuple[Unreadable, ...]


def read_plugstack(file: Path, read: ReadFile, expand: Expand) -> Plugstack:
    """A file that isn't there is an empty one, as for Slurm."""
    reading = _Reading(read, expand)
    reading.take(file, depth=0)
    return Plugstack(tuple(reading.plugins), tuple(reading.files), tuple(reading.includes), tuple(reading.unreadable))


class _Reading:
    """What has been read so far."""

    def __init__(self, read: ReadFile, expand: Expand) -> None:
        self.plugins: list[PluginLine] = []
        self.files: list[Path] = []
        self.includes: list[str] = []
        self.unreadable: list[Unreadable] = []
        self._read = read
        self._expand = expand

    def take(self, file: Path, *, depth: int) -> None:
        try:
            text = self._read(file)
        except FileNotFoundError:
            return
        except OSError as error:
            self.unreadable.append(Unreadable(file, None, f"it can't be read ({error.strerror or error})"))
            return
        self.files.append(file)
        for number, line in enumerate(text.split("\n"), start=1):
            self._take_line(file, number, line, depth)

    def _take_line(self, file: Path, number: int, line: str, depth: int) -> None:
        said = line.partition("#")[0]
        if "\r" in said:
            why = "it ends with CR LF, and Slurm takes the CR for a part of the last word"
            self.unreadable.append(Unreadable(file, number, why))
        words = [word for word in re.split(r"[ \t\r]+", said) if word]
        match words:
            case []:
                pass
            case ["include", glob, *_]:
                self._include(file, number, glob, depth)
            case [("required" | "optional") as how, plugin, *arguments]:
                self.plugins.append(PluginLine(how == "required", plugin, tuple(arguments), file, number))
            case ["include" | "required" | "optional" as alone]:
                self.unreadable.append(Unreadable(file, number, f"`{alone}` names nothing; Slurm ignores the line"))
            case [word, *_]:
                why = f"`{word}` is neither required nor optional nor include; Slurm ignores the line"
                self.unreadable.append(Unreadable(file, number, why))

    def _include(self, file: Path, number: int, glob: str, depth: int) -> None:
        absolute = glob if glob.startswith("/") else f"{file.parent}/{glob}"
        self.includes.append(absolute)
        if depth == DEEPEST:
            self.unreadable.append(Unreadable(file, number, f"more than {DEEPEST} files include one another"))
            return
        for included in self._expand(absolute):
            self.take(included, depth=depth + 1)
