"""Most nodes and the odd ones out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_resilience.preflight.result import Outcome, Result

_TOLD = (Outcome.OK, Outcome.WARN)


@dataclass(frozen=True, slots=True)
class Difference:
    what: str
    usual: str | None
    """What more than half of the nodes have. None: there is no such thing, so no node is the odd one."""
    values: Mapping[str, str]
    """By node: of the odd ones, or of all where nothing is usual."""


def measured(results: Sequence[Result], check: str) -> dict[str, Mapping[str, Any]]:
    """By node, what this check measured there; nodes on which it found nothing out are left out."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        if result.check == check and result.node is not None and result.finding.outcome in _TOLD:
            found.setdefault(result.node, {}).update(result.finding.measured)
    return {node: facts for node, facts in found.items() if facts}


def difference(what: str, values: Mapping[str, str]) -> Difference | None:
    """None: they are all alike."""
    counted = Counter(values.values()).most_common()
    if len(counted) < 2:
        return None
    usual, times = counted[0]
    if times * 2 > len(values):
        return Difference(what, usual, {node: value for node, value in values.items() if value != usual})
    return Difference(what, None, dict(values))


def flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """`{"files": {"a": "x"}}` as `{"files.a": "x"}`; values as text."""
    found: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = text_of(value)
    return found


def text_of(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
