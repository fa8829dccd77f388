"""What a line says of why something ended, for the witnesses that decide. Pure.

The lines are in the table of known failures (`triage/known`). A cascade is what others see of somebody's death; it
never names the cause. A line that nobody knows is nobody's word, unless it is the exception that ended a rank: that
one counts.
"""

from __future__ import annotations

import re

from slurm_resilience.triage.known.entry import KnownFailure, Role
from slurm_resilience.triage.known.table import TABLE, known

__all__ = ["PATTERNS", "Role", "names_storage", "pattern_of"]

PATTERNS = TABLE

_SAVE_REFUSED = re.compile(
    r"\b(?:Checkpoint|Manifest)Unavailable\b|No space left|quota exceeded|Input/output error|"
    r"Stale (?:NFS )?file handle|Read-only file system|Transport endpoint is not connected",
    re.IGNORECASE,
)


def pattern_of(line: str) -> KnownFailure | None:
    """The first of the known failures that knows the line."""
    return known(line)


def names_storage(why: str) -> bool:
    """Whether a save that failed for this reason was refused by a file system: sockets have nothing to do with it."""
    return _SAVE_REFUSED.search(why) is not None
