"""What a run has used of its limits, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.requeue.budget import Use


@dataclass(frozen=True, slots=True)
class Budgets:
    uses: tuple[Use, ...]
    told_by: str
    """Whose limits they are."""


def budgets_of(run: RunDirectory, chain: Chain) -> Budgets:
    """With the limits of the newest attempt's plan: the defaults, where there is none that can be read."""
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.launch.plan import read_plan
    from slurm_resilience.requeue.history import history_so_far, uses
    from slurm_resilience.requeue.limits import Limits

    newest = chain.newest_attempt
    limits, told_by = Limits(), "the defaults"
    if newest is not None:
        try:
            limits, told_by = read_plan(run.plan(newest.number)).limits, f"attempt {newest.number}"
        except (ConfigurationError, TypeError, KeyError, AttributeError):  # written by another version
            told_by = f"the defaults, for want of attempt {newest.number}'s plan"
    return Budgets(uses(history_so_far(chain), limits), told_by)


def print_budgets(budgets: Budgets) -> None:
    used = [use for use in budgets.uses if use.used]
    unused = [use for use in budgets.uses if not use.used]
    said = ", ".join(f"{use.used} of {use.limit} {_name(use)}" for use in used) or "nothing"
    click.echo(f"used since the last progress: {said}")
    if unused:
        click.echo(f"unused (limits of {budgets.told_by}): " + ", ".join(f"{use.limit} {_name(use)}" for use in unused))


def budgets_as_json(budgets: Budgets) -> dict[str, Any]:
    """The names are those of srun-resilient's limits."""
    return {
        "limits_of": budgets.told_by,
        "since_progress": {_key(use): {"used": use.used, "limit": use.limit} for use in budgets.uses},
        "spent": [_key(use) for use in _spent(budgets.uses)],
    }


def _spent(uses: Sequence[Use]) -> list[Use]:
    return [use for use in uses if use.spent]


def _key(use: Use) -> str:
    return use.budget.name.lower()


def _name(use: Use) -> str:
    return _key(use).replace("_", " ").replace("without", "attempts without")
