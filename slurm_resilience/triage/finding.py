"""What one witness makes of the end of an attempt, and how much it is to be trusted."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause


class Source(enum.Enum):
    """The witnesses, the most trusted first: the order here is the order of trust."""

    JOURNAL = "the run's own journal"
    PERSON = "a person's word"
    SLURM = "Slurm"
    HEALTH = "the node's own checks"
    PREFLIGHT = "preflight"
    EXIT_NOTES = "the exit notes"
    AGENTS = "the node agents"
    COMMAND = "the step's exit code"
    LOG = "the log text"
    SAVES = "the failed saves"


class Weight(enum.Enum):
    """How much a finding explains, the most first: a weighty one outranks whatever a better witness only implies.

    EXPLICIT  it names the cause: `TIMEOUT`, `No space left on device`
    IMPLIED   it fits the cause, and another could look the same: a SIGTERM long before the end
    BARE      it says that something ended, not why: `FAILED`, exit code 1
    """

    EXPLICIT = "explicit"
    IMPLIED = "implied"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Finding:
    source: Source
    weight: Weight
    cause: Cause
    because: str
    """One sentence, without its full stop."""
    words: str | None = None
    """The line that says so, if it is a line: what a signature is made of."""
    cascade: bool = False
    """It is somebody else's death as a peer has seen it."""


_TRUST = {source: place for place, source in enumerate(Source)}
_WEIGHTS = {weight: place for place, weight in enumerate(Weight)}
_BY_A_PERSON = frozenset({Cause.CANCELLED, Cause.CANCELLED_BY_ADMIN})


def rank(finding: Finding) -> tuple[int, int, int]:
    """To sort by, the most trusted first. A cancellation is a person's word, and outranks a person's stop."""
    cancelled = finding.weight is Weight.EXPLICIT and finding.cause in _BY_A_PERSON
    source = Source.PERSON if cancelled else finding.source
    return _WEIGHTS[finding.weight], _TRUST[source], 0 if cancelled else 1
