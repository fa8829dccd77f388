"""`slurm-resilience resume RUN`."""

from __future__ import annotations

from pathlib import Path

import click

from slurm_resilience.cli.exits import SentenceCommand


@click.command(cls=SentenceCommand)
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--anyway", is_flag=True, help="Queue the job again although the run was stopped for a reason.")
@click.option("--take-over", is_flag=True, help="My word that the run's owner is gone, where nothing proves it.")
@click.option(
    "--requeue-now",
    is_flag=True,
    help="Let a job that was queued again start at once. Slurm delays it so that old credentials expire.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.pass_context
def resume(ctx: click.Context, run: Path, anyway: bool, take_over: bool, requeue_now: bool, dry_run: bool) -> None:
    """Finish what a dead supervisor or a silent controller left undone.

    Writes the end of RUN's last attempt if nobody could, and carries out the decision that the journal holds: usually
    `scontrol requeue`; of a chain, that a successor is queued. Harmless when there is nothing to do, and when it is run
    twice.

    \b
    Exit codes:
        0   the run is finished, or --dry-run
        75  the run goes on: its job or successor is queued, or has begun
        76  the run does not go on by itself; what helps is said
        78  there is no run in RUN, or it never started
        79  somebody else owns the run, or nothing proves that its owner is gone
        1   asked for, and not done: Slurm did not answer; the same command may be given again
    """
    import os
    import socket

    from slurm_resilience.cli.outlook import outlook
    from slurm_resilience.cli.ownership import look_at_holder
    from slurm_resilience.cli.person import this_person
    from slurm_resilience.clock import SystemClock
    from slurm_resilience.errors import EXIT_WILL_NOT_GO_ON
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.slurm.choice import choose_client
    from slurm_resilience.supervisor.afterwards import Afterwards

    directory = RunDirectory(run.absolute())
    chain = Chain.of(Journal(directory).read())
    next_ = outlook(run, chain, look_at_holder(directory, chain))
    if next_.by_hand:  # there was no supervisor that could have left something undone
        click.echo(next_.sentence)
        ctx.exit(EXIT_WILL_NOT_GO_ON)
    afterwards = Afterwards(
        directory,
        choose_client(os.environ, say=click.echo),
        SystemClock(),
        click.echo,
        dry_run,
        anyway,
        take_over,
        requeue_now,
        os.environ,
        f"{this_person()} on {socket.gethostname()}",
    )
    ctx.exit(afterwards.resume())
