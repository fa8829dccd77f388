"""`slurm-resilience demo`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.rehearsal.training_job import TrainingJob

NOT_SHOWN = (
    "Slurm is not installed here (on Debian and Ubuntu: apt-get install slurm-wlm munge), so this runs in local mode, "
    "on one node. It does not show: a preemption by Slurm and its grace period, the requeue, several nodes."
)


@click.command(cls=SentenceCommand)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".demo"),
    show_default=True,
    help="Where runs, checkpoints and outputs go; overwritten by the next demonstration.",
)
@click.option("--local", is_flag=True, help="Without Slurm, even if it is installed.")
def demo(folder: Path, local: bool) -> None:
    """Watch a training be preempted and go on, here and now.

    Brings up a small Slurm cluster on this machine and trains on two of its four nodes. In the middle a job of a
    higher partition takes these nodes: the training stops after one step on all ranks, saves, is queued again and
    goes on; the same training runs undisturbed beside it. In the end their weights are compared, bit for bit.

    Exit code 1 where they differ.
    """
    from slurm_resilience.clock import SystemClock
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.rehearsal.demonstration import Demonstration
    from slurm_resilience.sandbox.find import find_slurm

    if not local:
        try:
            find_slurm()
        except ConfigurationError as error:
            click.echo(f"{error}")
            local = True
    if local:
        click.echo(NOT_SHOWN)
    with _shown() as (say, progress):
        demonstration = Demonstration(folder.absolute(), SystemClock(), say, progress)
        runs = demonstration.without_slurm() if local else demonstration.on_slurm()
    _conclude(*runs)


def _conclude(preempted: TrainingJob, undisturbed: TrainingJob) -> None:
    """The chain, and whether the weights are the same."""
    from slurm_resilience.cli.checkpoints.compare import compare
    from slurm_resilience.cli.status import status

    click.echo()
    status.main([str(preempted.run.path)], standalone_mode=False)
    click.echo()
    names = ["--prefix=objects", "--prefix=position", "--prefix=random/torch"]
    differ = compare.main([*names, str(preempted.run.path), str(undisturbed.run.path)], standalone_mode=False)
    if differ:
        click.echo("The preempted training did NOT end like the undisturbed one.")
        raise click.exceptions.Exit(1)
    click.echo("The preempted training ended with the weights of the undisturbed one, bit for bit.")


def _no_bar(_name: str, _step: int) -> None:
    """Where nobody watches."""


@contextmanager
def _shown() -> Iterator[tuple[Callable[[str], None], Callable[[str, int], None]]]:
    """Sentences above, one bar a run below; without a terminal the sentences alone."""
    from slurm_resilience.rehearsal.training_job import STEPS

    if not sys.stdout.isatty():
        yield click.echo, _no_bar
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(name: str, step: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=STEPS)
            bars.update(tasks[name], completed=step)

        yield (lambda sentence: bars.console.print(sentence, highlight=False, markup=False)), progress
