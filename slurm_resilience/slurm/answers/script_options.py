"""The options that a batch script gives itself in its #SBATCH lines. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_SHORT = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "J": "job-name",
    "L": "licenses",
    "N": "nodes",
    "c": "cpus-per-task",
    "e": "error",
    "i": "input",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    given: tuple[tuple[str, str], ...]
    """Long name and value, in the order of the script."""

    def has(self, name: str) -> bool:
        return any(one == name for one, _ in self.given)

    def last(self, name: str) -> str | None:
        return next((value for one, value in reversed(self.given) if one == name), None)

    def list_of(self, name: str) -> tuple[str, ...]:
        return tuple((self.last(name) or "").split(",")) if self.has(name) else ()

    def node_bounds(self) -> tuple[int, int] | None:
        """The least and the most nodes; None where the script doesn't say it in plain numbers."""
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", self.last("nodes") or "")
        return (int(found[1]), int(found[2] or found[1])) if found else None


def script_options(script: str) -> ScriptOptions:
    return ScriptOptions(tuple(_options(script)))


def _options(script: str) -> Iterator[tuple[str, str]]:
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            return  # sbatch reads no further than the first command
        if line.startswith("#SBATCH"):
            yield from _of_words(_words(line.removeprefix("#SBATCH")))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an open quote, of which sbatch itself will complain
        return text.split()


def _of_words(words: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif len(word) > 1 and word[0] == "-":
            name, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            continue
        if not equals and at < len(words) and not words[at].startswith("-"):
            value, at = words[at], at + 1
        yield name, value
