"""What all commands that read parts need: the packages, the receipts, a bar that shows how far they are."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click

from slurm_resilience.errors import ConfigurationError

if TYPE_CHECKING:
    from slurm_resilience.manifest.records import CheckpointCommitted, Part

_Command = TypeVar("_Command", bound=Callable[..., None])


def progress_option(command: _Command) -> _Command:
    return click.option(
        "--progress/--no-progress", default=None, help="Show a bar on stderr. [default: on a terminal]"
    )(command)


def part_of(committed: CheckpointCommitted, rank: int) -> Part:
    """Raises ConfigurationError where the checkpoint has no part of that rank."""
    for part in committed.parts:
        if part.rank == rank:
            return part
    ranks = ", ".join(f"{part.rank}" for part in committed.parts[:8]) + (", …" if len(committed.parts) > 8 else "")
    raise ConfigurationError(f"checkpoint {committed.checkpoint} has no part of rank {rank}: it has those of {ranks}")


def size_bytes(committed: CheckpointCommitted) -> int:
    return sum(part.bytes for part in committed.parts)


@contextlib.contextmanager
def packages_of_the_format() -> Iterator[None]:
    """A missing package is a sentence, not a traceback."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"checkpoints can't be read without {error.name}: install it, or slurm-resilience[torch] with all of them"
        ) from error


@contextlib.contextmanager
def byte_bar(verb: str, total_bytes: int, *, asked: bool | None) -> Iterator[Callable[[int], None]]:
    """To be told of every byte that is dealt with. `asked`: whether the user wants it; None: on a terminal."""
    shown = sys.stderr.isatty() if asked is None else asked
    if not shown or total_bytes == 0:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = TextColumn(verb), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(verb, total=total_bytes)
        yield lambda count: progress.advance(task, count)
