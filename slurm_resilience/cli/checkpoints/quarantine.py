"""`slurm-resilience checkpoints quarantine`: a person's word that a checkpoint is not to be loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, run_argument
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.cli.person import this_person
from slurm_resilience.errors import ConfigurationError

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint


@click.command(cls=SentenceCommand, short_help="Never load one, until it is released.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--why", metavar="TEXT", help="The reason, for whoever wonders later. [default: by whom]")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def quarantine(run: Path, checkpoint: str, why: str | None, dry_run: bool, as_json: bool) -> None:
    """Put CHECKPOINT of RUN aside: it is whole, but no attempt loads it until it is released.

    The run does so itself where two attempts died the same way soon after loading it. Its files stay: neither the
    training nor `prune` (without --quarantined) lets them go. May be done while the run is running: the next attempt
    goes on from the checkpoint before. Where none is left it refuses to start, unless by `srun-resilient
    --from-scratch`.

    Attempts before a quarantine don't count any more for the limits of `srun-resilient`: the start has changed.
    """
    from slurm_resilience.manifest.chain import Chain, CheckpointState
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.records import CheckpointQuarantined
    from slurm_resilience.manifest.run_directory import RunDirectory

    reason = why or f"by {this_person()}"
    with Journal(RunDirectory(run)).writing() as writer:
        chain = Chain.of(writer.lines())
        found = find_checkpoint(chain, run, checkpoint)
        name = found.committed.checkpoint
        if found.state is CheckpointState.DAMAGED:
            raise ConfigurationError(f"checkpoint {name} of run {run} is damaged: it is never loaded anyway")
        new = found.state is CheckpointState.LIVE
        if new and not dry_run:
            newest = chain.newest_attempt
            writer.append(CheckpointQuarantined(name, 0 if newest is None else newest.number, reason))
    _say(run, chain, found, reason, new=new, dry_run=dry_run, as_json=as_json)


def _say(run: Path, chain: Chain, found: Checkpoint, reason: str, *, new: bool, dry_run: bool, as_json: bool) -> None:
    name = found.committed.checkpoint
    left = [each.committed.step for each in chain.loadable() if each.committed.checkpoint != name]
    if as_json:
        value = {"checkpoint": name, "quarantined": reason if new else found.why, "done": new and not dry_run}
        click.echo(json.dumps(value | {"next_step": left[0] if left else 0}))
        return
    if not new:
        click.echo(f"{name} is in quarantine already: {found.why}")
        return
    click.echo(f"{name} {'would be' if dry_run else 'is'} in quarantine: {reason}")
    if left:
        click.echo(f"the next attempt goes on from step {left[0]}")
    else:
        click.echo("no checkpoint is left to load: the next attempt needs `srun-resilient --from-scratch`")
    if not dry_run:
        click.echo(f"to take it back: `slurm-resilience checkpoints release {run} {name}`")
