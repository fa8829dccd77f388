"""Why a save failed, by what its error says; the lines of logs are in the table of known failures. Pure."""

from __future__ import annotations

import re

_SAVE_REFUSED = re.compile(
    r"\b(?:Checkpoint|Manifest)Unavailable\b|No space left|quota exceeded|Input/output error|"
    r"Stale (?:NFS )?file handle|Read-only file system|Transport endpoint is not connected",
    re.IGNORECASE,
)


def names_storage(why: str) -> bool:
    """Whether a save that failed for this reason was refused by a file system: sockets have nothing to do with it."""
    return _SAVE_REFUSED.search(why) is not None
