"""`slurm-resilience checkpoints compare`: are two runs the same, bit for bit?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.checkpoints.named import NEWEST, find_checkpoint, read_chain
from slurm_resilience.cli.checkpoints.reading import packages_of_the_format
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.manifest.receipts import receipt_of

if TYPE_CHECKING:
    from slurm_resilience.manifest.records import CheckpointCommitted

SHOWN = 20


@click.command(cls=SentenceCommand, short_help="Whether two runs ended the same, bit for bit.")
@click.argument("run_a", type=click.Path(file_okay=False, path_type=Path))
@click.argument("run_b", type=click.Path(file_okay=False, path_type=Path))
@click.option("--prefix", "prefixes", multiple=True, metavar="NAME", help="Compare only what lies below: `model`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs, with all differences.")
def compare(run_a: Path, run_b: Path, prefixes: tuple[str, ...], as_json: bool) -> None:
    """Compare the newest checkpoints of RUN_A and RUN_B, rank by rank and bit for bit.

    A run that was interrupted should end like one that was not. Exit code 1 where they differ.

    For two checkpoints of one run, and by how much they differ: `slurm-resilience checkpoints diff`.
    """
    newest_a, newest_b = _newest(run_a), _newest(run_b)
    differences = _differences(run_a, newest_a, run_b, newest_b, prefixes)
    if as_json:
        value = {
            "a": {"run": str(run_a.absolute()), "checkpoint": newest_a.checkpoint, "step": newest_a.step},
            "b": {"run": str(run_b.absolute()), "checkpoint": newest_b.checkpoint, "step": newest_b.step},
            "same": not differences,
            "differences": [{"rank": rank, "name": name, "why": why} for rank, name, why in differences],
        }
        click.echo(json.dumps(value, indent=2))
    else:
        _print(newest_a, newest_b, differences, prefixes)
    if differences:
        raise click.exceptions.Exit(1)


def _newest(run: Path) -> CheckpointCommitted:
    return find_checkpoint(read_chain(run), run, NEWEST).committed


def _differences(
    run_a: Path, a: CheckpointCommitted, run_b: Path, b: CheckpointCommitted, prefixes: tuple[str, ...]
) -> list[tuple[int | None, str, str]]:
    """Rank, name and what differs."""
    from slurm_resilience.cli.wording import count_text

    if [part.rank for part in a.parts] != [part.rank for part in b.parts]:
        return [(None, "", f"{count_text(len(a.parts), 'rank')} here, {len(b.parts)} there")]
    found: list[tuple[int | None, str, str]] = []
    with packages_of_the_format():
        from slurm_resilience.checkpoint.compare import StoredPart, compare_parts
        from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

        store_a, store_b = Hdf5Store(run_a), Hdf5Store(run_b)
        for here, there in zip(a.parts, b.parts, strict=True):
            first = StoredPart(store_a, receipt_of(here))
            second = StoredPart(store_b, receipt_of(there))
            found += [(here.rank, each.name, each.why) for each in compare_parts(first, second, prefixes=prefixes)]
    return found


def _print(
    a: CheckpointCommitted,
    b: CheckpointCommitted,
    differences: list[tuple[int | None, str, str]],
    prefixes: tuple[str, ...],
) -> None:
    from slurm_resilience.cli.wording import count_text

    what = f" below {', '.join(prefixes)}" if prefixes else ""
    if not differences:
        click.echo(
            f"the same, bit for bit{what}: {a.checkpoint} and {b.checkpoint}, {count_text(len(a.parts), 'rank')}"
        )
        return
    click.echo(f"{a.checkpoint} and {b.checkpoint} differ{what} in {count_text(len(differences), 'place')}")
    for rank, name, why in differences[:SHOWN]:
        click.echo(f"  rank {rank}: {name}: {why}" if rank is not None else f"  {why}")
    if len(differences) > SHOWN:
        click.echo(f"  and {len(differences) - SHOWN} more: --json shows all of them")
