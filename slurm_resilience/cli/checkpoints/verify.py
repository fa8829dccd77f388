"""`slurm-resilience checkpoints verify`: read every byte, trust nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, run_argument
from slurm_resilience.cli.checkpoints.reading import (
    byte_bar,
    packages_of_the_format,
    progress_option,
    size_bytes,
)
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.manifest.receipts import receipt_of

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint
    from slurm_resilience.manifest.journal import Journal

WHOLE, DAMAGED, UNREADABLE, FORGOTTEN = "whole", "damaged", "unreadable", "forgotten"


@dataclass(frozen=True, slots=True)
class Verdict:
    checkpoint: str
    step: int
    bytes: int
    verdict: str
    """WHOLE, DAMAGED (its content is not what was written), UNREADABLE (nobody can say: the storage says no) or
    FORGOTTEN (its files went meanwhile, because the run has let it go)."""
    why: str | None = None
    seconds: float = 0.0


@click.command(cls=SentenceCommand, short_help="Read every byte, and compare its checksum.")
@run_argument
@click.argument("checkpoints", nargs=-1, metavar="[CHECKPOINT]...", shell_complete=complete_checkpoint)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array for programs.")
@progress_option
@click.option("--mark", is_flag=True, help="Write into the manifest which are damaged: they are never loaded again.")
@click.option("--record", is_flag=True, help="Write into the manifest which are whole: the last of them always stays.")
def verify(
    run: Path, checkpoints: tuple[str, ...], as_json: bool, progress: bool | None, mark: bool, record: bool
) -> None:
    """Verify the checkpoints of RUN, byte by byte: those named, or all live ones, the newest first.

    Every byte of every part is read and its checksum compared. Nothing is changed without --mark or --record. Damaged
    is what is not what was written, or missing; unreadable is what the storage refuses, which proves nothing; forgotten
    is what the run has let go meanwhile, and no reason to worry.

    Exit code 1 where one of them is damaged or can't be read.
    """
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    journal = Journal(RunDirectory(run))
    chain = Chain.of(journal.read())
    named = {each.committed.checkpoint: each for each in (find_checkpoint(chain, run, name) for name in checkpoints)}
    wanted = list(named.values()) if checkpoints else list(chain.loadable())
    with byte_bar("verify", sum(size_bytes(each.committed) for each in wanted), asked=progress) as advance:
        verdicts = [_verify(run, journal, each, advance) for each in wanted]
    if as_json:
        fields = ("checkpoint", "step", "bytes", "verdict", "why", "seconds")
        click.echo(json.dumps([{name: getattr(each, name) for name in fields} for each in verdicts], indent=2))
    else:
        _print(run, verdicts)
    damaged = [each for each in verdicts if each.verdict == DAMAGED]
    if damaged and mark:
        _mark(journal, chain, damaged)
    elif damaged and not as_json:
        click.echo("with --mark the manifest learns it, and the next attempt doesn't try to load what is damaged")
    if record:
        _record(journal, chain, [each for each in verdicts if each.verdict == WHOLE])
    if any(each.verdict in (DAMAGED, UNREADABLE) for each in verdicts):
        raise click.exceptions.Exit(1)


def _verify(run: Path, journal: Journal, checkpoint: Checkpoint, advance: Callable[[int], None]) -> Verdict:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.errors import CheckpointDamaged, CheckpointError

    committed = checkpoint.committed
    store = Hdf5Store(run)
    verdict, why = WHOLE, None
    started_s = time.perf_counter()
    try:
        with packages_of_the_format():
            store.verify_parts([receipt_of(part) for part in committed.parts], progress=advance)
    except CheckpointDamaged as error:
        forgotten = _is_forgotten(journal, committed.checkpoint)
        verdict, why = (FORGOTTEN, "the run has let it go meanwhile") if forgotten else (DAMAGED, str(error))
    except CheckpointError as error:  # unavailable or unsupported: no proof of damage
        verdict, why = UNREADABLE, str(error)
    seconds = round(time.perf_counter() - started_s, 6)
    return Verdict(committed.checkpoint, committed.step, size_bytes(committed), verdict, why, seconds)


def _is_forgotten(journal: Journal, name: str) -> bool:
    from slurm_resilience.manifest.chain import Chain, CheckpointState

    found = Chain.of(journal.read()).checkpoint(name)
    return found is not None and found.state is CheckpointState.FORGOTTEN


def _print(run: Path, verdicts: list[Verdict]) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.size import size_text

    if not verdicts:
        click.echo(f"run {run} has no live checkpoint to verify")
        return
    columns = [
        Column("checkpoint"),
        Column("step", number=True),
        Column("size", number=True),
        Column("rate", number=True),
        Column("verdict"),
    ]
    rows = []
    for each in verdicts:
        said = each.verdict if each.why is None else f"{each.verdict}: {each.why}"
        rate = f"{size_text(each.bytes / each.seconds)}/s" if each.verdict == WHOLE and each.seconds > 0 else None
        rows.append([each.checkpoint, f"{each.step}", size_text(each.bytes), rate, said])
    print_table(columns, rows)


def _mark(journal: Journal, chain: Chain, damaged: list[Verdict]) -> None:
    from slurm_resilience.manifest.records import CheckpointDamaged, CheckpointId

    number = _newest_attempt(chain)
    new = [each for each in damaged if _is_live(chain, each)]
    journal.append(*(CheckpointDamaged(CheckpointId(each.checkpoint), number, each.why or "") for each in new))
    for each in new:
        click.echo(f"the manifest knows now that {each.checkpoint} is damaged", err=True)


def _record(journal: Journal, chain: Chain, whole: list[Verdict]) -> None:
    from slurm_resilience.manifest.records import CheckpointId, CheckpointVerified

    number = _newest_attempt(chain)
    live = [each for each in whole if _is_live(chain, each)]
    # The oldest first: of one step the last that is written is the last that was verified.
    names = [CheckpointId(each.checkpoint) for each in reversed(live)]
    journal.append(*(CheckpointVerified(name, number, "checkpoints verify") for name in names))
    for each in live:
        click.echo(f"the manifest knows now that {each.checkpoint} is whole", err=True)


def _newest_attempt(chain: Chain) -> int:
    return 0 if chain.newest_attempt is None else chain.newest_attempt.number


def _is_live(chain: Chain, verdict: Verdict) -> bool:
    return any(each.committed.checkpoint == verdict.checkpoint for each in chain.loadable())
