"""How a check ends, and how it says numbers and names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.result import Finding, ok

_MOST_NAMES = 4


def summed_up(problems: Sequence[Finding], fine: str, facts: Mapping[str, Any]) -> list[Finding]:
    """The problems, or that all is fine; `facts` go with the first finding, so that they are there in any case."""
    known = {name: value for name, value in facts.items() if value is not None}
    if not problems:
        return [ok(fine, **known)]
    first, *others = problems
    return [replace(first, measured={**known, **first.measured}), *others]


def age(seconds: float) -> str:
    """`3 min`, of what lies back so long."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(0, seconds):.0f} s"


def listed(names: Iterable[object]) -> str:
    """`a, b, c, d and 3 more`."""
    told = [str(name) for name in names]
    if len(told) <= _MOST_NAMES:
        return ", ".join(told)
    return f"{', '.join(told[:_MOST_NAMES])} and {len(told) - _MOST_NAMES} more"


def counted(number: int, what: str) -> str:
    """`1 GPU`, `3 GPUs`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def earlier(context: Context, check: str, metric: str) -> list[Any]:
    """What was measured on this node before, the newest last. A baseline holds lists, or only the newest value."""
    of_check = (context.baseline or {}).get(check)
    value = of_check.get(metric) if isinstance(of_check, Mapping) else None
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
