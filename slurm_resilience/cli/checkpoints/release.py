"""`slurm-resilience checkpoints release`: a person's word that a checkpoint may be loaded again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from slurm_resilience.cli.checkpoints.named import complete_quarantined, find_checkpoint, run_argument
from slurm_resilience.cli.exits import SentenceCommand


@click.command(cls=SentenceCommand, short_help="Let one be loaded again after a quarantine.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_quarantined)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def release(run: Path, checkpoint: str, dry_run: bool, as_json: bool) -> None:
    """Take back a quarantine: CHECKPOINT of RUN may be loaded again, kept and let go like any other.

    To be done when the reason is gone: a bug in the program, a broken node. Deaths before the release count no more:
    it takes two new ones to put it aside again.
    """
    from slurm_resilience.manifest.chain import Chain, CheckpointState
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.records import CheckpointReleased
    from slurm_resilience.manifest.run_directory import RunDirectory

    with Journal(RunDirectory(run)).writing() as writer:
        chain = Chain.of(writer.lines())
        found = find_checkpoint(chain, run, checkpoint)
        name, was = found.committed.checkpoint, found.state is CheckpointState.QUARANTINED
        if was and not dry_run:
            writer.append(CheckpointReleased(name))
    loaded = [(each.committed.step, each.committed.attempt) for each in chain.loadable()]
    next_step, _ = max([*loaded, (found.committed.step, found.committed.attempt)] if was else loaded, default=(0, 0))
    if as_json:
        click.echo(json.dumps({"checkpoint": name, "done": was and not dry_run, "next_step": next_step}))
    elif was:
        verb = "would be" if dry_run else "is"
        click.echo(f"{name} {verb} released ({found.why}): the next attempt goes on from step {next_step}")
    else:
        click.echo(f"{name} is not in quarantine: it is {found.state.value}")
