"""The signature of a death: the same for two deaths of one kind, whatever rank, node, step or time they came at. Pure.

Two deaths of one signature soon after loading one checkpoint give reason to put that checkpoint aside. So a death that
says nothing about what was loaded has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from slurm_resilience.manifest.records import Cause

_SPEAKS_OF_THE_STATE = frozenset({Cause.CRASHED, Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.UNKNOWN})
"""Storage is not among them: a checkpoint is not given up for a disk's bad day."""
LONGEST = 200

_WHO = re.compile(r"^\s*(?:rank-\d+:\s*|\[[^\]]*rank\s*\d+[^\]]*\]:?\s*|\d+:\s+)+", re.IGNORECASE)
_TYPE = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?=:|$)")
_HOST = re.compile(r"\b[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*){2,}(?=[:\]]+\d)")
"""A name with two dots before a port: nobody need know it. One dot could be a file's, before its line."""
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d+(?:[.,:_]\d+)*(?:[eE][-+]?\d+)?(?!\w)"
    r"|0[xX][0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]+\b"
    r"|\b[0-9a-fA-F]{16,}\b"
    r"|[-+]?\d+(?:[.,:_]\d+)*"
)
"""Numbers, addresses and what else is drawn by lot: digests, names of temporary files."""
_NUMBERS = re.compile(r"<n>(?:[\s,x×.:_]+<n>)+")
_BYTES = re.compile(r"<n> ?(?:[KMGTP]i?B|bytes?)\b")
"""The same want is told in MiB or GiB, as it comes."""


def signature(cause: Cause, words: str | None, how: str | None, hosts: Collection[str] = ()) -> str | None:
    """`words`: the line that says why, where there is one; `how`: `exit 3` or `SIGSEGV`, where there is none.

    `hosts` are the names that may stand in the words. None: this death says nothing about what was loaded.
    """
    if cause not in _SPEAKS_OF_THE_STATE:
        return None
    if words is not None and words.strip():
        return f"{cause.value}: {normalised(words, hosts)}"
    return f"{cause.value}: {how}" if how else None


def normalised(line: str, hosts: Collection[str] = ()) -> str:
    """The line without what differs from one death to the next: who, where, when, how many."""
    text = _WHO.sub("", line.strip())
    known = sorted({host for host in hosts if host}, key=len, reverse=True)
    if known:
        names = "|".join(re.escape(host) for host in known)
        text = re.sub(rf"(?<![\w-])(?:{names})(?![\w-])(?:\.[A-Za-z][\w-]*)*", "<host>", text)
    text = _TYPE.sub(r"\1", text)
    text = _HOST.sub("<host>", text)
    text = _NUMBER.sub("<n>", text)
    text = _NUMBERS.sub("<n>", text)
    text = _BYTES.sub("<n> B", text)
    return " ".join(text.split())[:LONGEST]
