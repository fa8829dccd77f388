"""What a check says: how it stands, whose problem it is, in a sentence, and what to do about it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Outcome(enum.Enum):
    """How a thing stands. BROKEN is about the check itself: it could not find out, which is never good news."""

    OK = "ok"
    SKIPPED = "skipped"  # there is nothing of the kind here: no GPU, no bond
    WARN = "warn"  # the training would run, but slower, or nearer to the edge
    BROKEN = "broken"  # the check failed, not what it looks at
    FAIL = "fail"


class Problem(enum.Enum):
    """Whose it is: another node helps against the one, never against the other."""

    NODE = "node problem"
    USER = "user problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found out, as the check says it: where and when, others know."""

    outcome: Outcome
    sentence: str
    """Without its full stop; for SKIPPED, why."""
    problem: Problem | None = None
    """For WARN and FAIL."""
    remedy: str | None = None
    """What to do, in a sentence or as a command; for WARN and FAIL."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """JSON values, with units in their names (`free_bytes`): for programs, baselines and comparisons over the nodes."""
    node: str | None = None
    """Whom a finding of one node is about, where that is another one: `n3` doesn't answer `n1`."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finding with its check and its node."""

    check: str
    node: str | None
    """None: about the job as a whole."""
    finding: Finding
    took_s: float | None = None


def ok(sentence: str, **measured: Any) -> Finding:
    return Finding(Outcome.OK, sentence, measured=measured)


def skipped(why: str, **measured: Any) -> Finding:
    return Finding(Outcome.SKIPPED, why, measured=measured)


def broken(sentence: str, **measured: Any) -> Finding:
    return Finding(Outcome.BROKEN, sentence, measured=measured)


def warn(problem: Problem, sentence: str, remedy: str, *, node: str | None = None, **measured: Any) -> Finding:
    return Finding(Outcome.WARN, sentence, problem, remedy, measured, node)


def fail(problem: Problem, sentence: str, remedy: str, *, node: str | None = None, **measured: Any) -> Finding:
    return Finding(Outcome.FAIL, sentence, problem, remedy, measured, node)
