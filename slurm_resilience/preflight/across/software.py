"""Checks `same-versions` and `same-environment`: what a training may find here one way, and there another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from slurm_resilience.preflight.across.likeness import Difference, difference, flat, measured, shortened
from slurm_resilience.preflight.result import Finding, Outcome, Problem, Result, ok

VERSIONS, ENVIRONMENT = "same-versions", "same-environment"
REFUSED = frozenset({"torch", "nccl", "cuda", "python"})
"""Where they differ, ranks refuse each other or reckon differently; what else differs, most trainings survive."""
OWN = frozenset(
    "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL "
    "ZE_AFFINITY_MASK NCCL_HOSTID CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY".split()
)
"""Each node has its own, by right."""
_ALIKE = "give all nodes the same: one container or one module for the whole job, or leave {} out"


def same_versions(results: Sequence[Result]) -> Iterable[Result]:
    facts = {node: flat(found) for node, found in measured(results, "versions").items()}
    named = {name for found in facts.values() for name in found if not name.endswith("_s")}
    differences = []
    for name in sorted(named):
        values = {
            node: _comparable(name, found.get(name, "none"))
            for node, found in facts.items()
            # What only the training's Python can say is missing where that could be asked and did not say it.
            if name in found or (name in REFUSED and "python" in found)
        }
        if (found_difference := difference(name, values)) is not None:
            differences.append(found_difference)
    yield from _told(VERSIONS, "versions", facts, differences, lambda each: _last(each.what) in REFUSED)


def same_environment(results: Sequence[Result]) -> Iterable[Result]:
    facts = {node: flat(found) for node, found in measured(results, "environment").items()}
    named = {name for found in facts.values() for name in found if _last(name) not in OWN}
    differences = []
    for name in sorted(named):
        values = {node: found.get(name, "not set") for node, found in facts.items()}
        if (found_difference := difference(_last(name), values)) is not None:
            differences.append(found_difference)
    yield from _told(ENVIRONMENT, "settings", facts, differences, lambda _: False)


def _comparable(name: str, value: str) -> str:
    """Of Python only the minor version: its patches understand each other."""
    if _last(name) != "python":
        return value
    return ".".join(value.split(".")[:2])


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _told(
    check: str,
    what: str,
    facts: Mapping[str, object],
    differences: list[Difference],
    refused: Callable[[Difference], bool],
) -> Iterable[Result]:
    """One finding a node and outcome: an odd node is odd in many things at once, mostly."""
    if len(facts) < 2:
        return
    if not differences:
        yield Result(check, None, ok(f"{len(facts)} nodes have the same {what}"))
        return
    for outcome, chosen in (
        (Outcome.FAIL, [each for each in differences if refused(each)]),
        (Outcome.WARN, [each for each in differences if not refused(each)]),
    ):
        odd = [each for each in chosen if each.usual is not None]
        for node in sorted({node for each in odd for node in each.values}):
            own = [each for each in odd if node in each.values]
            words = [
                f"{each.what} {shortened(each.values[node])} (the others: {shortened(each.usual or '')})"
                for each in own
            ]
            values = {each.what: [each.values[node], each.usual] for each in own}
            sentence = f"{node} has {_some(words)}"
            yield Result(
                check,
                node,
                Finding(outcome, sentence, Problem.NODE, _ALIKE.format(node), {"differs": values}),
            )
        split = [each for each in chosen if each.usual is None]
        if split:
            words = [f"{each.what}: {_by_value(each.values)}" for each in split]
            by_node = {each.what: dict(each.values) for each in split}
            remedy = _ALIKE.format("some nodes")
            finding = Finding(
                outcome, f"the nodes differ in {_some(words)}", Problem.USER, remedy, {"differs": by_node}
            )
            yield Result(check, None, finding)


def _some(words: list[str]) -> str:
    return "; ".join(words[:4]) + (f"; and {len(words) - 4} more" if len(words) > 4 else "")


def _by_value(values: Mapping[str, str]) -> str:
    nodes: dict[str, list[str]] = {}
    for node, value in values.items():
        nodes.setdefault(value, []).append(node)
    return ", ".join(f"{shortened(value)} on {' '.join(names[:4])}" for value, names in nodes.items())
