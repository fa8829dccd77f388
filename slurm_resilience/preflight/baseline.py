"""What was measured on a node before: one small file a node, for the comparison of a node with itself.

Nothing in here fails preflight: what can't be read is not there, what can't be written is not kept. Two jobs that
record the same node at one time replace each other's file: the last one wins, and one measurement is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.preflight.result import Outcome, Result
from slurm_resilience.preflight.run_files import within

FORMAT = 1
KEPT = 20
"""Values of one metric, the newest last."""
VARIABLE = "SLURM_RESILIENCE_BASELINES"
PATIENCE_S = 5.0
"""For all nodes together: home directories hang too."""
_LARGEST_BYTES = 4 << 20
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]")

ASKED_THERE = frozenset(
    {
        ("bonding", "link_failures"),
        ("infiniband", "active"),
        ("infiniband", "downs"),
        ("storage-speed", "write_bytes_per_s"),
    }
)
"""What the checks on the nodes want to know. All else is for the conductor: every node is sent every node's."""

Baseline = Mapping[str, Mapping[str, Sequence[Any]]]
"""By check and metric."""


def folder_of(environment: Mapping[str, str]) -> Path | None:
    """Where they are kept. None: there is no home directory to keep them in."""
    if given := environment.get(VARIABLE):
        return Path(given)
    if state := environment.get("XDG_STATE_HOME"):
        return Path(state) / "slurm-resilience" / "baselines"
    home = environment.get("HOME")
    return Path(home) / ".local/state/slurm-resilience/baselines" if home else None


def read(folder: Path | None, nodes: Iterable[str]) -> dict[str, Baseline]:
    """By node; a node of which nothing is known is left out."""
    if folder is None:
        return {}
    found: dict[str, Baseline] = {}

    def look() -> None:
        for node in nodes:
            if baseline := _read(folder / file_name(node)):
                found[node] = baseline

    _whatever_happens(look)
    return dict(found)


def record(folder: Path | None, results: Sequence[Result]) -> None:
    """Add what was measured now to what is kept."""
    by_node = measured_of(results)
    if folder is None or not by_node:
        return

    def keep() -> None:
        make_directory_durably(folder)
        for node, now in by_node.items():
            path = folder / file_name(node)
            value = {"format": FORMAT, "node": node, "measured": added(_read(path), now)}
            replace_durably(path, json.dumps(value, indent=1).encode() + b"\n")

    _whatever_happens(keep)


def measured_of(results: Sequence[Result]) -> dict[str, dict[str, dict[str, Any]]]:
    """By node, check and metric: what findings that tell how a node is have measured. Only numbers, and maps of them.

    A failure's are left out: a baseline says what a node can do.
    """
    by_node: dict[str, dict[str, dict[str, Any]]] = {}
    for result in results:
        if result.node is None or result.finding.outcome not in (Outcome.OK, Outcome.WARN):
            continue
        numbers = {name: value for name, value in result.finding.measured.items() if _can_be_kept(value)}
        if numbers:
            by_node.setdefault(result.node, {}).setdefault(result.check, {}).update(numbers)
    return by_node


def added(before: Baseline, now: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """`before` and the newest values behind it."""
    together = {check: {name: list(values) for name, values in metrics.items()} for check, metrics in before.items()}
    for check, metrics in now.items():
        for name, value in metrics.items():
            kept = together.setdefault(check, {}).setdefault(name, [])
            kept.append(value)
            del kept[:-KEPT]
    return together


def for_the_nodes(baselines: Mapping[str, Baseline]) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """What the checks there ask for, and of maps the newest: of hundreds of nodes the whole is megabytes to each."""
    told: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for node, baseline in baselines.items():
        for check, metric in sorted(ASKED_THERE):
            values = list(baseline.get(check, {}).get(metric, ()))
            if values:
                newest = values[-1:] if isinstance(values[-1], Mapping) else values
                told.setdefault(node, {}).setdefault(check, {})[metric] = newest
    return told


def file_name(node: str) -> str:
    return f"{_NOT_IN_FILE_NAMES.sub('_', node)}.json"


def _can_be_kept(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and len(value) <= 64 and all(_is_number(one) for one in value.values())
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read(path: Path) -> Baseline:
    """Nothing where it is missing, torn, of another format, or not what it should be."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict) or value.get("format") != FORMAT or not isinstance(value.get("measured"), dict):
        return {}
    return {
        check: {name: values for name, values in metrics.items() if isinstance(values, list)}
        for check, metrics in value["measured"].items()
        if isinstance(metrics, dict)
    }


def _whatever_happens(action: Any) -> None:
    try:
        within(PATIENCE_S, action)
    except (OSError, TimeoutError, ValueError):
        return
