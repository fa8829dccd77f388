"""All checks and rounds that there are, in the order of the table; imported when preflight runs, not before."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_resilience.preflight.request import Registry

_ABOUT_ACROSS = {
    "same-versions": "all nodes have the same versions of what matters to a training",
    "same-environment": "all nodes have the same settings for NCCL, torch and the like",
    "same-hardware": "all nodes have the same processors, memory and GPUs",
    "same-speed": "no node is much slower than the others",
}


def registered(environment: Mapping[str, str]) -> Registry:
    """`environment` says where the baselines are."""
    from slurm_resilience.preflight import baseline
    from slurm_resilience.preflight.across import judge
    from slurm_resilience.preflight.checks import CHECKS
    from slurm_resilience.preflight.rounds import rounds

    folder = baseline.folder_of(environment)
    return Registry(
        checks=CHECKS,
        rounds=rounds,
        across=judge,
        about_across=_ABOUT_ACROSS,
        baselines=lambda nodes: baseline.read(folder, nodes),
        record=lambda results: baseline.record(folder, results),
    )
