from __future__ import annotations

from collections import Counter
from pathlib import Path

from slurm_resilience.preflight.child import function_of
from slurm_resilience.preflight.registry import registered
from slurm_resilience.preflight.request import OWN


def test_every_name_means_one_thing() -> None:
    registry = registered({})
    rounds = registry.rounds(all_reduce=True, run_dir=Path("/run"), baselines={}, time_limit_s=60.0)
    names = [*OWN, *registry.about_across]
    names += [check.name for check in registry.checks] + [round_.name for round_ in rounds]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_check_and_every_first_round_names_a_function_that_is_there() -> None:
    registry = registered({})
    rounds = registry.rounds(all_reduce=True, run_dir=Path("/run"), baselines={}, time_limit_s=60.0)
    names = [check.function for check in registry.checks] + [round_.function for round_ in rounds]
    assert all(callable(function_of(name)) for name in names)
