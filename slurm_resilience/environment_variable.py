"""Numbers that stand in environment variables. Pure: the environment comes in as a value.

Ours, and those of launchers, are refused by name where they are no numbers. Slurm's are its own affair: what can't be
read there is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from slurm_resilience.errors import ConfigurationError


def whole_number(variables: Mapping[str, str], name: str) -> int | None:
    """None: unset, or empty. Raises ConfigurationError for what is no whole number."""
    text = variables.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise ConfigurationError(f"the environment variable {name} is {text!r}, which is not a number") from error


def quantity(variables: Mapping[str, str], name: str, unit: str, *, may_be_zero: bool = True) -> float | None:
    """So many `unit` (`seconds`). None: unset, or empty. Raises ConfigurationError for less than 0 and for no end."""
    text = variables.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf or (number == 0 and not may_be_zero):
        raise ConfigurationError(f"the environment variable {name} is {text!r}, which is not a number of {unit}")
    return number


def first_number(variables: Mapping[str, str], name: str) -> int | None:
    """Of `4`, `4(x2)` and `4,2`: 4, so that nodes that differ are taken by the first of them. None for all else: `4G`
    isn't 4 of what is counted."""
    head = variables.get(name, "").partition(",")[0].partition("(")[0]
    return int(head) if head.isascii() and head.isdecimal() else None
