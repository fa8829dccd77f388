"""Check `same-hardware`: a node with a GPU, a memory module or CPUs less than the job's others. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from slurm_resilience.preflight.across.likeness import difference, measured, text_of
from slurm_resilience.preflight.result import Problem, Result, ok, warn
from slurm_resilience.size import size_text

CHECK = "same-hardware"
MEMORY_SHARE = 0.05
"""As LBNL's Node Health Check allows: firmware takes a little, and not everywhere the same."""
_COUNTED = (("gpu", "gpus", "GPUs"), ("gpu", "models", "GPU model"), ("cpus", "cpus", "CPUs"))
_REMEDY = (
    "look whether hardware of {} has failed (`scontrol show node {}`), or ask for nodes of one kind (--constraint)"
)


def same_hardware(results: Sequence[Result]) -> Iterable[Result]:
    told: dict[str, list[str]] = {}
    looked_at: set[str] = set()
    unlike: list[str] = []
    for check, metric, words in _COUNTED:
        facts = measured(results, check)
        values = {node: text_of(found[metric]) for node, found in facts.items() if found.get(metric) is not None}
        looked_at |= set(values)
        found_difference = difference(words, values)
        if found_difference is None:
            continue
        if found_difference.usual is None:
            unlike.append(f"{words}: {', '.join(f'{value} on {node}' for node, value in sorted(values.items())[:6])}")
            continue
        for node, value in found_difference.values.items():
            told.setdefault(node, []).append(f"{words}: {value} (the others: {found_difference.usual})")
    memory = {
        node: float(found["total_bytes"])
        for node, found in measured(results, "memory").items()
        if isinstance(found.get("total_bytes"), int | float)
    }
    looked_at |= set(memory)
    if len(memory) > 2:
        middle = statistics.median(memory.values())
        for node, total in memory.items():
            if middle and total < middle * (1 - MEMORY_SHARE):
                words = f"{size_text(total)} (the others: {size_text(middle)})"
                told.setdefault(node, []).append(f"memory: {words}")
    for node, sentences in sorted(told.items()):
        sentence = f"{node} has less or other hardware than the others: {'; '.join(sentences)}"
        yield Result(CHECK, node, warn(Problem.NODE, sentence, _REMEDY.format(node, node)))
    if unlike:
        remedy = "ask for nodes of one kind (--constraint): every step waits for the slowest"
        yield Result(CHECK, None, warn(Problem.USER, f"the nodes differ in {'; '.join(unlike)}", remedy))
    if len(looked_at) > 1 and not told and not unlike:
        yield Result(CHECK, None, ok(f"{len(looked_at)} nodes are alike"))
