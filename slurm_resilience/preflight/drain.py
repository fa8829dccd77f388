"""The lines by which an administrator takes unfit nodes out of service. They are shown, never run. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from slurm_resilience.preflight.result import Outcome, Problem, Result

LONGEST_REASON = 160
"""In characters: `sinfo -R` shows the beginning."""
_SPECIAL = str.maketrans({'"': "'", "`": "'", "$": "", "\\": "/", "!": ""})
"""What a shell would read between double quotes."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def drain_lines(results: Iterable[Result], exclude: Sequence[str]) -> tuple[str, ...]:
    """One for each node of `exclude`, with what failed there first."""
    why: dict[str, str] = {}
    for result in results:
        finding = result.finding
        if result.node is not None and finding.outcome is Outcome.FAIL and finding.problem is Problem.NODE:
            why.setdefault(result.node, f"{result.check}: {finding.sentence}")
    return tuple(_line(node, why.get(node, "failed")) for node in exclude)


def _line(node: str, why: str) -> str:
    name = node if _NAME.fullmatch(node) else shlex.quote(node)
    printable = "".join(letter if letter.isprintable() else " " for letter in why)
    reason = " ".join(f"[node_problem] preflight: {printable}".translate(_SPECIAL).split())
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[: LONGEST_REASON - 3].rstrip()}..."
    return f'scontrol update NodeName={name} State=DRAIN Reason="{reason}"'
