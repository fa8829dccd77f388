"""A checkpoint as the user names it, and the names that the shell completes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from slurm_resilience.errors import ConfigurationError, ResilienceError

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint

NEWEST = "newest"

run_argument = click.argument("run", type=click.Path(file_okay=False, path_type=Path))


def complete_checkpoint(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the checkpoints of the run in the parameter `run` that can be loaded."""
    run = ctx.params.get("run")
    if run is None:
        return []
    try:
        loadable = read_chain(Path(run)).loadable()
    except (ResilienceError, OSError):
        return []  # a half-written line is no place for errors
    items = [CompletionItem(each.committed.checkpoint, help=f"step {each.committed.step}") for each in loadable]
    newest = [CompletionItem(NEWEST, help="the one that loads next")] if items else []
    return [item for item in [*items, *newest] if item.value.startswith(incomplete)]


def complete_quarantined(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of those that are in quarantine."""
    from slurm_resilience.manifest.chain import CheckpointState

    run = ctx.params.get("run")
    if run is None:
        return []
    try:
        chain = read_chain(Path(run))
    except (ResilienceError, OSError):
        return []
    put_aside = [each for each in chain.checkpoints if each.state is CheckpointState.QUARANTINED]
    items = [CompletionItem(each.committed.checkpoint, help=each.why) for each in put_aside]
    return [item for item in items if item.value.startswith(incomplete)]


def read_chain(run: Path) -> Chain:
    """Raises what `Journal.read` raises."""
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    return Chain.of(Journal(RunDirectory(run)).read())


def find_checkpoint(chain: Chain, run: Path, name: str) -> Checkpoint:
    """Raises ConfigurationError where there is no such checkpoint, or its files are gone."""
    from slurm_resilience.manifest.chain import CheckpointState

    if name == NEWEST:
        loadable = chain.loadable()
        if not loadable:
            raise ConfigurationError(f"run {run} has no checkpoint that can be loaded")
        return loadable[0]
    found = chain.checkpoint(name)
    if found is None:
        raise ConfigurationError(f"run {run} has no checkpoint {name}: `slurm-resilience checkpoints list {run}`")
    if found.state is CheckpointState.FORGOTTEN:
        raise ConfigurationError(f"checkpoint {name} of run {run} is forgotten: its files are gone")
    return found
