"""`slurm-resilience checkpoints show`: what is in a checkpoint."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.listing import checkpoint_as_json
from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, read_chain, run_argument
from slurm_resilience.cli.checkpoints.reading import packages_of_the_format, part_of
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.manifest.receipts import receipt_of

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Checkpoint


@click.command(cls=SentenceCommand, short_help="The parts, attributes and tensors of one.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--rank", type=click.IntRange(min=0), help="Only the part of this rank. [default: all]")
@click.option("--tensors/--no-tensors", default=True, help="List the tensors, or only the parts. [default: --tensors]")
@click.option(
    "--filter",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only tensors whose name fits: `objects/model/*`. May be given more than once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def show(run: Path, checkpoint: str, rank: int | None, tensors: bool, patterns: tuple[str, ...], as_json: bool) -> None:
    """Show what CHECKPOINT of RUN holds: its parts, their attributes, and the tensors in them.

    Only the heads of the files are read and verified, so it takes the same time whatever the size; `verify` reads the
    tensors themselves.

    \b
    Examples:
        slurm-resilience checkpoints show RUN newest --no-tensors
        slurm-resilience checkpoints show RUN newest --rank 0 --filter 'objects/optimizer/*'
    """
    found = find_checkpoint(read_chain(run), run, checkpoint)
    parts = list(found.committed.parts) if rank is None else [part_of(found.committed, rank)]
    value = checkpoint_as_json(found)
    value["parts"] = []
    with packages_of_the_format():
        from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

        store = Hdf5Store(run)
        for part in parts:
            head = store.head_of(receipt_of(part))
            told = {"rank": part.rank, "file": part.file, "bytes": part.bytes, "checksum": part.checksum}
            told["attributes"] = head.attributes
            if tensors:
                told["tensors"] = [
                    {
                        "name": placed.dataset.name,
                        "also": list(placed.dataset.also),
                        "dtype": placed.dataset.dtype,
                        "shape": list(placed.dataset.shape),
                        "bytes": placed.dataset.bytes,
                        "checksum": f"xxh3-128:{placed.checksum.hex()}",
                        "file": placed.dataset.file,
                    }
                    for placed in head.placed
                    if not patterns or any(fnmatch.fnmatchcase(placed.dataset.name, each) for each in patterns)
                ]
            value["parts"].append(told)
    if as_json:
        click.echo(json.dumps(value, indent=2))
    else:
        _print(found, value["parts"], tensors=tensors)


def _print(checkpoint: Checkpoint, parts: list[dict[str, Any]], *, tensors: bool) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import count_text, time_text
    from slurm_resilience.size import size_text

    committed = checkpoint.committed
    click.echo(f"{committed.checkpoint}: step {committed.step}, attempt {committed.attempt}, {checkpoint.state.value}")
    click.echo(f"saved {time_text(checkpoint.time_s)} ({committed.reason.value}) in {committed.seconds:.1f} s")
    if committed.metric is not None:
        click.echo(f"metric {committed.metric:.6g}")
    if checkpoint.why is not None:
        click.echo(f"{checkpoint.state.value}: {checkpoint.why}")
    if checkpoint.pinned is not None:
        click.echo(f"pinned: {checkpoint.pinned}")
    click.echo("verified once, whole" if checkpoint.verified else "never verified so far")
    for where in checkpoint.published:
        click.echo(f"published: {where}")
    for part in parts:
        click.echo()
        click.echo(f"rank {part['rank']}: {part['file']}, {size_text(part['bytes'])}, {part['checksum']}")
        for name, item in part["attributes"].items():
            click.echo(f"  {name}: {item}")
        if tensors:
            columns = [
                Column("tensor"),
                Column("dtype"),
                Column("shape"),
                Column("size", number=True),
                Column("checksum"),
            ]
            rows = [
                [
                    " = ".join([each["name"], *each["also"]]) + (f" (in {each['file']})" if each["file"] else ""),
                    each["dtype"],
                    "×".join(map(str, each["shape"])) or "scalar",
                    size_text(each["bytes"]),
                    each["checksum"].removeprefix("xxh3-128:"),
                ]
                for each in part["tensors"]
            ]
            print_table(columns, rows)
            click.echo(
                f"{count_text(len(rows), 'tensor')}, {size_text(sum(each['bytes'] for each in part['tensors']))}"
            )
