"""One thing that was looked at: how it stands, in a sentence, and what to do about it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Level(enum.Enum):
    FINE = "fine"
    WARNING = "warning"  # it works, but not as well or as safely as it could
    UNKNOWN = "unknown"  # it could not be found out from here: never good news
    WRONG = "wrong"  # it doesn't work


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    level: Level
    sentence: str
    to_do: str | None = None
    """None: nothing."""


def fine(check: str, sentence: str) -> Finding:
    return Finding(check, Level.FINE, sentence)


def warning(check: str, sentence: str, to_do: str) -> Finding:
    return Finding(check, Level.WARNING, sentence, to_do)


def unknown(check: str, sentence: str, to_do: str) -> Finding:
    return Finding(check, Level.UNKNOWN, sentence, to_do)


def wrong(check: str, sentence: str, to_do: str) -> Finding:
    return Finding(check, Level.WRONG, sentence, to_do)


def all_fine(findings: Iterable[Finding]) -> bool:
    """Warnings are fine: the plugin does what it is for."""
    return all(finding.level in (Level.FINE, Level.WARNING) for finding in findings)


def verdict(findings: Iterable[Finding]) -> str:
    """All of them in a sentence."""
    levels = {finding.level for finding in findings}
    if Level.WRONG in levels:
        return "the plugin is not in order"
    if Level.UNKNOWN in levels:
        return "nothing is wrong with what could be looked at, and not everything could"
    return "the plugin is in order"
