"""The fixtures of the table of known failures: tests/failures/WRITER/NAME.log, and healthy logs beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FAILURES = Path(__file__).parents[2] / "failures"
_HEAD = re.compile(r"#! (\w+): (.*)")
_OTHERS = frozenset({"healthy", "runs"})


@dataclass(frozen=True, slots=True)
class Fixture:
    path: Path
    head: tuple[tuple[str, str], ...]
    lines: tuple[tuple[int, str], ...]
    """What the log has, each with its number in the file."""

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}.{self.path.stem}"

    def said(self, what: str) -> list[str]:
        return [value for key, value in self.head if key == what]


def read_fixture(path: Path) -> Fixture:
    numbered = list(enumerate(path.read_text(errors="replace").split("\n"), start=1))
    head = [found.groups() for _, line in numbered if (found := _HEAD.fullmatch(line)) is not None]
    lines = [(number, line) for number, line in numbered if not line.startswith("#! ") and line]
    return Fixture(path, tuple((key, value) for key, value in head), tuple(lines))


def failures() -> list[Fixture]:
    folders = sorted(each for each in FAILURES.iterdir() if each.is_dir() and each.name not in _OTHERS)
    return [read_fixture(path) for folder in folders for path in sorted(folder.glob("*.log"))]


def healthy() -> list[Fixture]:
    return [read_fixture(path) for path in sorted((FAILURES / "healthy").glob("*.log"))]
