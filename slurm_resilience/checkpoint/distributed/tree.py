"""Walking through a nested state, by the paths under which a part names its tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from slurm_resilience.checkpoint.format.path_name import segments_of


def replaced(value: Any, change: Callable[[str, Any], Any], path: str = "") -> Any:
    """`value` with every leaf as `change(path, leaf)` says. Containers without a change are the same objects."""
    if type(value) in (dict, OrderedDict):
        return _replaced_in_mapping(value, change, path)
    if type(value) in (list, tuple):
        items = [replaced(item, change, below(path, str(index))) for index, item in enumerate(value)]
        same = all(item is old for item, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return change(path, value)


def _replaced_in_mapping(value: Any, change: Callable[[str, Any], Any], path: str) -> Any:
    changed = {
        key: item
        for segment, (key, old) in zip(segments_of(value), value.items(), strict=True)
        if (item := replaced(old, change, below(path, segment))) is not old
    }
    if not changed:
        return value
    copied = value.copy()
    copied.update(changed)
    if hasattr(value, "__dict__"):
        copied.__dict__.update(value.__dict__)  # the modules' versions, which torch keeps beside the weights
    return copied


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path, in order."""
    if type(value) in (dict, OrderedDict):
        for segment, item in zip(segments_of(value), value.values(), strict=True):
            yield from leaves(item, below(path, segment))
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            yield from leaves(item, below(path, str(index)))
    else:
        yield path, value


def below(path: str, segment: str) -> str:
    return f"{path}/{segment}" if path else segment
