"""`slurm-resilience checkpoints diff`: what has changed between two checkpoints, and by how much."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, read_chain, run_argument
from slurm_resilience.cli.checkpoints.reading import (
    byte_bar,
    packages_of_the_format,
    progress_option,
    size_bytes,
)
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.manifest.receipts import receipt_of

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.exchange.difference import StateDifference
    from slurm_resilience.manifest.records import CheckpointCommitted

SHOWN = 40

_Found = list[tuple[int, "StateDifference"]]


@click.command(cls=SentenceCommand, short_help="Where two checkpoints differ, and how far they are apart.")
@run_argument
@click.argument("a", shell_complete=complete_checkpoint)
@click.argument("b", shell_complete=complete_checkpoint)
@click.option(
    "--other-run",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where B is to be found. [default: in RUN]",
)
@click.option("--prefix", "prefixes", multiple=True, metavar="NAME", help="Compare only what lies below: `objects`.")
@click.option("--all", "all_", is_flag=True, help=f"Show all differences, not only the first {SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs, with all differences.")
@progress_option
def diff(
    run: Path,
    a: str,
    b: str,
    other_run: Path | None,
    prefixes: tuple[str, ...],
    all_: bool,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Show where the checkpoints A and B of RUN differ, rank by rank, and how far they are apart.

    For every tensor whose bits differ: the norms of both, the norm of their difference, the largest difference of two
    elements, and how many elements differ; all in double precision. Both parts of a rank are held in memory.

    Exit code 1 where they differ.

    \b
    Examples:
        slurm-resilience checkpoints diff RUN step-0000000120.a1 newest --prefix objects/model
        slurm-resilience checkpoints diff RUN newest newest --other-run RUN2
    """
    first = find_checkpoint(read_chain(run), run, a).committed
    second_run = run if other_run is None else other_run
    second = find_checkpoint(read_chain(second_run), second_run, b).committed
    ranks_a, ranks_b = (sorted(part.rank for part in each.parts) for each in (first, second))
    found: _Found = []
    with byte_bar("diff", size_bytes(first) + size_bytes(second), asked=progress) as advance:
        for rank in sorted({*ranks_a} & {*ranks_b}):
            found += [(rank, each) for each in _differences(run, first, second_run, second, rank, prefixes, advance)]
    if as_json:
        click.echo(json.dumps(_as_json(run, first, second_run, second, found, ranks_a == ranks_b), indent=2))
    else:
        _print(first, second, found, (ranks_a, ranks_b), shown=len(found) if all_ else SHOWN)
    if found or ranks_a != ranks_b:
        raise click.exceptions.Exit(1)


def _differences(
    run_a: Path,
    a: CheckpointCommitted,
    run_b: Path,
    b: CheckpointCommitted,
    rank: int,
    prefixes: tuple[str, ...],
    advance: Callable[[int], None],
) -> list[StateDifference]:
    with packages_of_the_format():
        from slurm_resilience.checkpoint.exchange.difference import state_differences
        from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

        states = []
        for run, committed in ((run_a, a), (run_b, b)):
            (part,) = (part for part in committed.parts if part.rank == rank)
            states.append(Hdf5Store(run).read_part(receipt_of(part), progress=advance))
        return state_differences(*states, prefixes=prefixes)


def _as_json(
    run_a: Path, a: CheckpointCommitted, run_b: Path, b: CheckpointCommitted, found: _Found, same_ranks: bool
) -> dict[str, Any]:
    return {
        "a": {"run": str(run_a.absolute()), "checkpoint": a.checkpoint, "step": a.step, "ranks": a.world_size},
        "b": {"run": str(run_b.absolute()), "checkpoint": b.checkpoint, "step": b.step, "ranks": b.world_size},
        "same": same_ranks and not found,
        "differences": [
            {
                "rank": rank,
                "name": each.name,
                "why": each.why,
                "distance": None if each.distance is None else _finite(asdict(each.distance)),
            }
            for rank, each in found
        ],
    }


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """JSON has no word for NaN and infinity."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _print(
    a: CheckpointCommitted, b: CheckpointCommitted, found: _Found, ranks: tuple[list[int], list[int]], *, shown: int
) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import count_text

    if ranks[0] != ranks[1]:
        click.echo(f"{count_text(len(ranks[0]), 'rank')} here, {len(ranks[1])} there: compared are those of both")
    if not found:
        click.echo(f"the same, bit for bit: {a.checkpoint} and {b.checkpoint}")
        return
    click.echo(f"{a.checkpoint} (a) and {b.checkpoint} (b) differ in {count_text(len(found), 'place')}")
    columns = [
        Column("rank", number=True),
        Column("name"),
        *(Column(name, number=True) for name in ("‖a‖", "‖b‖", "‖a-b‖", "max |a-b|", "elements")),
    ]
    rows: list[list[str | None]] = []
    for rank, each in found[:shown]:
        apart = each.distance
        if apart is None:
            rows.append([f"{rank}", f"{each.name}: {each.why}", *[None] * 5])
        else:
            numbers = (apart.norm_a, apart.norm_b, apart.norm_difference, apart.most)
            changed = f"{apart.differing} of {apart.count}"
            rows.append([f"{rank}", each.name, *(f"{number:.4g}" for number in numbers), changed])
    print_table(columns, rows)
    if len(found) > shown:
        click.echo(f"and {len(found) - shown} more: --all or --json shows all of them")
