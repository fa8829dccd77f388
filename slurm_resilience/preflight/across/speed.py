"""Check `same-speed`: a node that is much slower at the shared storage than the job's other nodes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from slurm_resilience.preflight.across.likeness import measured
from slurm_resilience.preflight.result import Problem, Result, ok, warn

CHECK = "same-speed"
TIMES = 4.0
"""Nodes that measure at one time take from each other: less than this is chance."""
LEAST_S = 2.0
"""How much longer it must take for what is measured, a file of 64 MiB or one sync."""
_FILE_BYTES = 64 << 20
_METRICS = (
    ("write_bytes_per_s", "writing to the run directory"),
    ("read_bytes_per_s", "reading from the run directory"),
    ("fsync_s", "a sync in the run directory"),
)


def same_speed(results: Sequence[Result]) -> Iterable[Result]:
    """Of three nodes or more: two can't say which of them is the slow one."""
    facts = measured(results, "storage-speed")
    slow: dict[str, list[str]] = {}
    compared = 0
    for metric, words in _METRICS:
        took_s = {}
        for node, found in facts.items():
            value = found.get(metric)
            if isinstance(value, int | float) and value > 0:
                took_s[node] = float(value) if metric.endswith("_s") and "per" not in metric else _FILE_BYTES / value
        if len(took_s) < 3:
            continue
        compared = max(compared, len(took_s))
        middle_s = statistics.median(took_s.values())
        for node, seconds in took_s.items():
            if seconds > TIMES * middle_s and seconds - middle_s > LEAST_S:
                slow.setdefault(node, []).append(f"{words} takes {seconds / middle_s:.1f} times as long")
    for node, sentences in sorted(slow.items()):
        sentence = f"{node} is slower at storage than the others: {'; '.join(sentences)}"
        remedy = f"look at the mount and the network of {node}, or leave it out: every save waits for the slowest"
        yield Result(CHECK, node, warn(Problem.NODE, sentence, remedy))
    if compared and not slow:
        yield Result(CHECK, None, ok(f"{compared} nodes are about as fast as each other at storage"))
