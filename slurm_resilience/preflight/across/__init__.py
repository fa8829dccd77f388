"""The nodes' findings held against each other: what no node can see by itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_resilience.preflight.across.hardware import same_hardware
from slurm_resilience.preflight.across.software import same_environment, same_versions
from slurm_resilience.preflight.across.speed import same_speed
from slurm_resilience.preflight.result import Result


def judge(results: Sequence[Result]) -> tuple[Result, ...]:
    return (
        *same_versions(results),
        *same_environment(results),
        *same_hardware(results),
        *same_speed(results),
    )
