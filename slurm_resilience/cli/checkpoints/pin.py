"""`slurm-resilience checkpoints pin` and `unpin`: a person's word about what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, run_argument
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.cli.person import this_person

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Checkpoint
    from slurm_resilience.manifest.records import CheckpointId, CheckpointPinned, CheckpointUnpinned


@click.command(cls=SentenceCommand, short_help="Keep one, whatever the rules say.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--why", metavar="TEXT", help="The reason, for whoever wonders later. [default: by whom]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def pin(run: Path, checkpoint: str, why: str | None, as_json: bool) -> None:
    """Keep CHECKPOINT of RUN: neither the training nor `prune` lets it go until it is unpinned.

    May be done while the run is running. Pinned anew, the newer reason counts.
    """
    from slurm_resilience.manifest.records import CheckpointPinned

    reason = why or f"by {this_person()}"
    found = _write(run, checkpoint, lambda name, _: CheckpointPinned(name, reason))
    _say(found, f"{found.committed.checkpoint} is pinned: {reason}", reason, as_json=as_json)


@click.command(cls=SentenceCommand, short_help="Take back a pin.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def unpin(run: Path, checkpoint: str, as_json: bool) -> None:
    """Take back a `pin`: from now on CHECKPOINT of RUN is kept or let go like any other."""
    from slurm_resilience.manifest.records import CheckpointUnpinned

    found = _write(run, checkpoint, lambda name, pinned: CheckpointUnpinned(name) if pinned else None)
    said = "is not pinned any more" if found.pinned is not None else "was not pinned"
    _say(found, f"{found.committed.checkpoint} {said}", None, as_json=as_json)


def _write(
    run: Path, name: str, record: Callable[[CheckpointId, bool], CheckpointPinned | CheckpointUnpinned | None]
) -> Checkpoint:
    """The checkpoint as it was before. Under the lock: retention must not forget it between the look and the word."""
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    with Journal(RunDirectory(run)).writing() as writer:
        found = find_checkpoint(Chain.of(writer.lines()), run, name)
        made = record(found.committed.checkpoint, found.pinned is not None)
        if made is not None:
            writer.append(made)
    return found


def _say(found: Checkpoint, sentence: str, pinned: str | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"checkpoint": found.committed.checkpoint, "pinned": pinned}))
    else:
        click.echo(sentence)
