"""`slurm-resilience stop`: a person's word to a running attempt."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.cli.person import this_person

if TYPE_CHECKING:
    from slurm_resilience.manifest.run_directory import RunDirectory


@click.command(cls=SentenceCommand)
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
def stop(run: Path, dry_run: bool) -> None:
    """Ask the running attempt of the run in RUN to save, to stop, and not to go on.

    Returns at once; `slurm-resilience status RUN` shows when it has happened. A run that no attempt is running is left
    as it is: exit code 0 where it has stopped already, 78 where Slurm is about to start it again. A training that was
    started without srun-resilient hears signals only: exit code 78, and it is said which helps.
    """
    from slurm_resilience.cli.outlook import is_bare, outlook, signal_for, waiting_job
    from slurm_resilience.cli.ownership import look_at_holder
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.process_identity import Liveness

    directory = RunDirectory(run)
    chain = Chain.of(Journal(directory).read())
    holder = look_at_holder(directory, chain)
    if holder is None or holder.liveness is Liveness.GONE:
        waiting = waiting_job(chain, None)
        if waiting is not None and chain.newest_attempt is not None and chain.newest_attempt.ended is not None:
            raise ConfigurationError(
                f"no attempt of run {run} is running, but job {waiting} is queued to go on with it: "
                f"`scancel {waiting}` ends that"
            )
        next_ = outlook(run, chain, holder)
        click.echo(f"nothing to stop: {next_.sentence}" + (f" (`{next_.command}`)" if next_.command else ""))
        return
    attempt = holder.owner.attempt
    if is_bare(chain):
        raise ConfigurationError(
            f"attempt {attempt} of run {run} was started without srun-resilient and looks for no request: on "
            f"{holder.owner.host}, `{signal_for(holder.owner)}` makes all its ranks save and stop"
        )
    doubt = "" if holder.liveness is Liveness.ALIVE else "; whether it is alive can't be told from here"
    if directory.stop_file.exists():
        click.echo(f"attempt {attempt} of run {run} has been asked to stop already{doubt}")
    elif dry_run:
        click.echo(f"attempt {attempt} of run {run} would be asked to stop, by {directory.stop_file}{doubt}")
    else:
        _ask(directory)
        click.echo(f"attempt {attempt} of run {run} is asked to save and stop, and not to go on{doubt}")
    click.echo("to go on later, submit its batch script again: it resumes from the last checkpoint")


def _ask(directory: RunDirectory) -> None:
    from slurm_resilience.durable_file import replace_durably
    from slurm_resilience.errors import ManifestUnavailable

    try:
        replace_durably(directory.stop_file, f"{this_person()} on {socket.gethostname()}\n".encode())
    except OSError as error:
        raise ManifestUnavailable(f"{directory.stop_file} can't be written: {error.strerror or error}") from error
