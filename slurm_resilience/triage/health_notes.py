"""Health notes: what a check at the start of the job found wrong with a node, written there by Slurm's plugin.

`{"node": "n3", "mode": "exclude", "findings": ["gpu-ecc: 3 uncorrectable errors"]}` in
`RUN/exit-notes/JOB-RESTART/NODE.health.json`. In mode `exclude` no task was started on the node: the step failed there.
In mode `warn` it was said, and the tasks ran. Keys that we don't know are left alone.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PATTERN = "*.health.json"
MOST_FINDINGS = 20
LONGEST_FINDING = 300
"""Characters of each that are kept."""
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")


class Mode(enum.Enum):
    WARN = "warn"
    EXCLUDE = "exclude"  # no task may run there


@dataclass(frozen=True, slots=True)
class HealthNote:
    node: str
    mode: Mode
    findings: tuple[str, ...]
    """`NAME-OF-THE-CHECK: what it says`, one line each."""

    def __str__(self) -> str:
        return f"node {self.node} is {'unhealthy' if self.mode is Mode.EXCLUDE else 'doubtful'}: {self.said}"

    @property
    def said(self) -> str:
        return "; ".join(self.findings) or "its check says no more"


def parse(text: str) -> HealthNote | None:
    """None: it is no health note, or not to be believed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    node, mode, findings = value.get("node"), value.get("mode"), value.get("findings")
    if not isinstance(node, str) or not _is_node_name(node) or mode not in (Mode.WARN.value, Mode.EXCLUDE.value):
        return None
    if not isinstance(findings, list) or not all(isinstance(finding, str) for finding in findings):
        return None
    lines = [_one_line(finding) for finding in findings[:MOST_FINDINGS]]
    return HealthNote(node, Mode(mode), tuple(line for line in lines if line))


def _is_node_name(text: str) -> bool:
    """It becomes a word of `scontrol update`: no list, no option, nothing else that Slurm would read into it."""
    return _NODE_NAME.fullmatch(text) is not None


def _one_line(finding: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in finding)
    return " ".join(printable.split())[:LONGEST_FINDING]


def read_health_notes(folder: Path, say: Callable[[str], None]) -> tuple[HealthNote, ...]:
    """Of one life of a job, by node; `say` hears of what can't be read. Never raises for it."""
    notes: list[HealthNote] = []
    try:
        paths = sorted(folder.glob(PATTERN))
    except OSError as error:
        say(f"the health notes in {folder} can't be listed ({error.strerror or error}): triage does without them")
        return ()
    for path in paths:
        try:
            note = parse(path.read_text(errors="replace"))
        except OSError as error:
            say(f"the health note {path} can't be read ({error.strerror or error}): triage does without it")
            continue
        if note is None:
            say(f"{path} is no health note: it was skipped")
        else:
            notes.append(note)
    return tuple(sorted(notes, key=lambda note: note.node))
