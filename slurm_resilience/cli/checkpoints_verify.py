"""`slurm-resilience checkpoints verify`: read every byte, trust nothing."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint
    from slurm_resilience.manifest.journal import Journal

WHOLE, DAMAGED, UNREADABLE = "whole", "damaged", "unreadable"


@dataclass(frozen=True, slots=True)
class Verdict:
    checkpoint: str
    step: int
    bytes: int
    verdict: str
    """WHOLE, DAMAGED (its content is not what was written) or UNREADABLE (nobody can say: the storage says no)."""
    why: str | None = None


@click.command(cls=SentenceCommand)
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.argument("checkpoints", nargs=-1, metavar="[CHECKPOINT]...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array for programs.")
@click.option("--progress/--no-progress", default=None, help="Show a bar on stderr. [default: on a terminal]")
@click.option("--mark", is_flag=True, help="Write into the manifest which are damaged: they are never loaded again.")
def verify(run: Path, checkpoints: tuple[str, ...], as_json: bool, progress: bool | None, mark: bool) -> None:
    """Verify the checkpoints of RUN, byte by byte: those named, or all live ones, the newest first.

    Exit code 1 where one of them is damaged or can't be read.
    """
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    journal = Journal(RunDirectory(run))
    chain = Chain.of(journal.read())
    wanted = _wanted(chain, run, checkpoints)
    total_bytes = sum(part.bytes for each in wanted for part in each.committed.parts)
    with _bar(total_bytes, shown=sys.stderr.isatty() if progress is None else progress) as advance:
        verdicts = [_verify(run, each, advance) for each in wanted]
    if as_json:
        fields = ("checkpoint", "step", "bytes", "verdict", "why")
        click.echo(json.dumps([{name: getattr(each, name) for name in fields} for each in verdicts], indent=2))
    else:
        _print(run, verdicts)
    damaged = [each for each in verdicts if each.verdict == DAMAGED]
    if damaged and mark:
        _mark(journal, chain, damaged)
    elif damaged and not as_json:
        click.echo("with --mark the manifest learns it, and the next attempt doesn't try to load what is damaged")
    if any(each.verdict != WHOLE for each in verdicts):
        raise click.exceptions.Exit(1)


def _wanted(chain: Chain, run: Path, names: tuple[str, ...]) -> list[Checkpoint]:
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.manifest.chain import CheckpointState

    if not names:
        return list(chain.loadable())
    known = {str(each.committed.checkpoint): each for each in chain.checkpoints}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"run {run} has no checkpoint {name}: `slurm-resilience checkpoints list {run}`")
        if known[name].state is CheckpointState.FORGOTTEN:
            raise ConfigurationError(f"checkpoint {name} of run {run} is forgotten: its files are gone")
    return [known[name] for name in dict.fromkeys(names)]


def _verify(run: Path, checkpoint: Checkpoint, advance: Callable[[int], None]) -> Verdict:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.checkpoint.store import PartReceipt
    from slurm_resilience.errors import CheckpointDamaged, CheckpointError

    committed = checkpoint.committed
    store = Hdf5Store(run)
    verdict, why = WHOLE, None
    try:
        with packages_of_the_format():
            for part in committed.parts:
                store.verify_part(PartReceipt(part.rank, part.file, part.bytes, part.checksum), progress=advance)
    except CheckpointDamaged as error:
        verdict, why = DAMAGED, str(error)
    except CheckpointError as error:  # unavailable or unsupported: no proof of damage
        verdict, why = UNREADABLE, str(error)
    size_bytes = sum(part.bytes for part in committed.parts)
    return Verdict(committed.checkpoint, committed.step, size_bytes, verdict, why)


@contextlib.contextmanager
def packages_of_the_format() -> Iterator[None]:
    """A missing package is a sentence, not a traceback."""
    from slurm_resilience.errors import ConfigurationError

    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"checkpoints can't be read without {error.name}: install it, or slurm-resilience[torch] with all of them"
        ) from error


@contextlib.contextmanager
def _bar(total_bytes: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not shown or total_bytes == 0:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("verify", total=total_bytes)
        yield lambda count: progress.advance(task, count)


def _print(run: Path, verdicts: list[Verdict]) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import size_text

    if not verdicts:
        click.echo(f"run {run} has no live checkpoint to verify")
        return
    columns = [Column("checkpoint"), Column("step", number=True), Column("size", number=True), Column("verdict")]
    rows = []
    for each in verdicts:
        said = each.verdict if each.why is None else f"{each.verdict}: {each.why}"
        rows.append([each.checkpoint, f"{each.step}", size_text(each.bytes), said])
    print_table(columns, rows)


def _mark(journal: Journal, chain: Chain, damaged: list[Verdict]) -> None:
    from slurm_resilience.manifest.chain import CheckpointState
    from slurm_resilience.manifest.records import CheckpointDamaged, CheckpointId

    live = {each.committed.checkpoint for each in chain.checkpoints if each.state is CheckpointState.LIVE}
    newest = chain.newest_attempt
    number = newest.number if newest is not None else 0
    new = [each for each in damaged if each.checkpoint in live]
    journal.append(*(CheckpointDamaged(CheckpointId(each.checkpoint), number, each.why or "") for each in new))
    for each in new:
        click.echo(f"the manifest knows now that {each.checkpoint} is damaged", err=True)
