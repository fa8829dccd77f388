"""`slurm-resilience checkpoints fetch`: a published checkpoint made loadable again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.tiers.depot import Depot
    from slurm_resilience.checkpoint.tiers.published import Published
    from slurm_resilience.checkpoint.tiers.throttle import Throttle
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.records import CheckpointCommitted


@click.command(cls=SentenceCommand, short_help="Bring one back from where it was published.")
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.argument("checkpoint", required=False)
@click.option("--from", "from_", required=True, metavar="URL", help="Where `checkpoints publish` has put it.")
@click.option("--limit", metavar="RATE", help="No more than this on average: 200MB/s. [default: no limit]")
@click.option("--pin/--no-pin", default=True, show_default=True, help="Keep retention from forgetting it again.")
@click.option("--other-run", is_flag=True, help="RUN may be another run than the one it was published from.")
@click.option("--dry-run", is_flag=True, help="List what is published there, and fetch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--progress/--no-progress", default=None, help="Show a bar on stderr. [default: on a terminal]")
def fetch(
    run: Path,
    checkpoint: str | None,
    from_: str,
    limit: str | None,
    pin: bool,
    other_run: bool,
    dry_run: bool,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Fetch CHECKPOINT, or the one of the highest step, from URL into RUN, which is created where there is none.

    Every byte is verified, then the manifest of RUN learns of it: the next attempt resumes from it if no other is
    of a higher step. A checkpoint that was forgotten or damaged here is live again after that; one in quarantine has
    to be released instead. Ctrl-C ends it after the block that is being fetched; the same command goes on later.
    """
    from slurm_resilience.checkpoint.tiers.depots import depot_at
    from slurm_resilience.checkpoint.tiers.fetching import read_published, read_run
    from slurm_resilience.checkpoint.tiers.places import parse_place
    from slurm_resilience.checkpoint.tiers.publication import published_in
    from slurm_resilience.cli.publish import throttle_of
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.publishing import committed_of
    from slurm_resilience.manifest.run_directory import RunDirectory

    depot = depot_at(parse_place(from_, os.environ))
    throttle = throttle_of(limit)
    published_run = read_run(depot)
    names = published_in(depot)
    if dry_run:
        _list(depot, names, as_json)
        return
    if not names:
        raise ConfigurationError(f"no whole checkpoint is published at {depot.where}")
    published = read_published(depot, checkpoint or names[-1])
    committed = committed_of(published, depot.where)
    journal = Journal(RunDirectory(run))
    if not journal.exists():
        journal.create(published_run.run)
    else:
        _check(journal, published, committed, other_run)
    with StopSignals() as signals:
        new = _bring(journal, depot, published, committed, signals, throttle, pin, progress)
    if as_json:
        value = {"checkpoint": published.checkpoint, "step": published.step, "fetched": new, "pinned": new and pin}
        click.echo(json.dumps(value, indent=2))
    elif new:
        click.echo(f"{published.checkpoint} is fetched and verified{', and pinned' if pin else ''}")
    else:
        click.echo(f"{published.checkpoint} is live in {run} already: `slurm-resilience checkpoints verify` reads it")


def _list(depot: Depot, names: list[str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(names, indent=2))
    else:
        click.echo("\n".join(names) or f"no whole checkpoint is published at {depot.where}")


def _check(journal: Journal, published: Published, committed: CheckpointCommitted, other_run: bool) -> None:
    """Whether it may come into this run. Raises ConfigurationError."""
    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.publishing import refuse_under_their_hands

    chain = Chain.of(journal.read())
    # One without attempts and checkpoints is nobody's so far: a fetch into a new folder that was broken off made it.
    if chain.run_id != published.run_id and not other_run and (chain.attempts or chain.checkpoints):
        raise ConfigurationError(
            f"{journal.run.path} is run {chain.run_id}, not {published.run_id} ({published.run}), from which this was "
            "published: --other-run, if it is to go there all the same"
        )
    if (why := _quarantine_of(chain, committed)) is not None:
        raise ConfigurationError(
            f"{committed.checkpoint} is in quarantine in {journal.run.path} ({why}): "
            f"`slurm-resilience checkpoints release {journal.run.path} {committed.checkpoint}` lets it be loaded again"
        )
    refuse_under_their_hands(journal.run, chain, committed)


def _quarantine_of(chain: Chain, committed: CheckpointCommitted) -> str | None:
    """Why it is in quarantine; None: it isn't. Fetched again it would be as before, and live."""
    from slurm_resilience.manifest.chain import CheckpointState

    known = chain.checkpoint(committed.checkpoint)
    return known.why or "" if known is not None and known.state is CheckpointState.QUARANTINED else None


def _bring(
    journal: Journal,
    depot: Depot,
    published: Published,
    committed: CheckpointCommitted,
    signals: StopSignals,
    throttle: Throttle | None,
    pin: bool,
    progress: bool | None,
) -> bool:
    """False: it is live here already, and nothing was touched."""
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.checkpoint.tiers import fetching
    from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
    from slurm_resilience.cli.checkpoints.reading import byte_bar, packages_of_the_format
    from slurm_resilience.manifest.chain import Chain, CheckpointState
    from slurm_resilience.manifest.publishing import take_in
    from slurm_resilience.manifest.receipts import receipt_of

    run = journal.run
    known = Chain.of(journal.read()).checkpoint(committed.checkpoint)
    if known is not None and known.state is CheckpointState.LIVE:
        return False
    try:
        with byte_bar("fetch", sum(file.bytes for file in published.files), asked=progress) as advance:
            fetching.fetch(
                depot,
                published,
                run.checkpoints / published.checkpoint,
                transit=Transit(signals.asked, throttle, advance),
                clock=signals,
                say=lambda text: click.echo(text, err=True),
            )
    except Interrupted as error:
        click.echo("stopped; what was fetched stays, and the same command goes on", err=True)
        raise click.exceptions.Exit(1) from error
    store = Hdf5Store(run.path)
    with packages_of_the_format():
        for part in committed.parts:
            store.verify_part(receipt_of(part))
    return take_in(journal, committed, depot.where, pin=pin)
