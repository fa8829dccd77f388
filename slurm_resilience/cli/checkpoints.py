"""`slurm-resilience checkpoints`: the group, and its command `list`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints_compare import compare
from slurm_resilience.cli.checkpoints_verify import verify
from slurm_resilience.cli.exits import SentenceGroup

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint


@click.group(cls=SentenceGroup)
def checkpoints() -> None:
    """List, verify and compare the checkpoints of runs."""


@checkpoints.command("list")
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array for programs, with the files of each.")
def list_(run: Path, as_json: bool) -> None:
    """List the checkpoints that the manifest of RUN names, the oldest first.

    Only what the manifest names exists: files that lie around besides are no checkpoints.
    """
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    chain = Chain.of(Journal(RunDirectory(run)).read())
    if as_json:
        click.echo(json.dumps([checkpoint_as_json(each, parts=True) for each in chain.checkpoints], indent=2))
    elif chain.checkpoints:
        print_checkpoints(chain)
    else:
        click.echo(f"run {run} has no checkpoint yet")


checkpoints.add_command(verify)
checkpoints.add_command(compare)


def print_checkpoints(chain: Chain) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import duration_text, size_text, time_text

    columns = [
        Column("checkpoint"),
        Column("step", number=True),
        Column("saved"),
        Column("reason"),
        Column("ranks", number=True),
        Column("size", number=True),
        Column("took", number=True),
        Column("state"),
    ]
    rows = []
    for checkpoint in chain.checkpoints:
        committed = checkpoint.committed
        rows.append(
            [
                committed.checkpoint,
                f"{committed.step}",
                time_text(checkpoint.time_s),
                committed.reason.value,
                f"{committed.world_size}",
                size_text(_size_bytes(checkpoint)),
                f"{committed.seconds:.1f} s" if committed.seconds < 60 else duration_text(committed.seconds),
                checkpoint.state.value + (f": {checkpoint.why}" if checkpoint.why else ""),
            ]
        )
    print_table(columns, rows)


def checkpoint_as_json(checkpoint: Checkpoint, *, parts: bool = False) -> dict[str, Any]:
    committed = checkpoint.committed
    value: dict[str, Any] = {
        "checkpoint": committed.checkpoint,
        "step": committed.step,
        "attempt": committed.attempt,
        "time_s": checkpoint.time_s,
        "reason": committed.reason.value,
        "world_size": committed.world_size,
        "bytes": _size_bytes(checkpoint),
        "seconds": committed.seconds,
        "state": checkpoint.state.value,
        "why": checkpoint.why,
    }
    if parts:
        value["parts"] = [
            {"rank": part.rank, "file": part.file, "bytes": part.bytes, "checksum": part.checksum}
            for part in committed.parts
        ]
    return value


def _size_bytes(checkpoint: Checkpoint) -> int:
    return sum(part.bytes for part in checkpoint.committed.parts)
