"""What another library's checkpoint holds, in our words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_resilience.errors import ConfigurationError

WHOLE = "."


@dataclass(frozen=True, slots=True)
class Foreign:
    form: str
    """Which library's, for people."""
    tree: Any
    """All that was read: nested dicts and lists of tensors and plain values."""
    step: int | None
    epochs_done: int | None
    """Whole epochs, as far as the file tells."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What is probably meant: names to register by, and the path of each in `tree`."""


def pick(tree: Any, path: str) -> Any:
    """What lies at `path`: keys and numbers joined by `/`; `.` for everything. A last part that ends in a dot picks,
    from names with dots in them, those that begin so, without that beginning: `state_dict/model.`

    Raises ConfigurationError, saying what there is.
    """
    if path == WHOLE:
        return tree
    value, walked = tree, ""
    for part in path.split("/"):
        if part.endswith(".") and isinstance(value, Mapping) and part not in value:
            below = {key[len(part) :]: item for key, item in value.items() if str(key).startswith(part)}
            if not below:
                raise ConfigurationError(f"nothing in {walked or 'the file'} begins with {part}: {_has(value)}")
            return below
        found = _step_into(value, part)
        if found is _NOTHING:
            raise ConfigurationError(f"{walked or 'the file'} holds no {part}: {_has(value)}")
        value, walked = found, f"{walked}/{part}" if walked else part
    return value


_NOTHING = object()


def _step_into(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        number = int(part) if part.isdecimal() else None
        return value.get(part, _NOTHING if number is None else value.get(number, _NOTHING))
    if isinstance(value, (list, tuple)) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return _NOTHING


def _has(value: Any) -> str:
    if isinstance(value, Mapping):
        names = [str(key) for key in value]
        return f"it has {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
    if isinstance(value, (list, tuple)):
        return f"it has {len(value)} items"
    return f"it is a {type(value).__name__}"
