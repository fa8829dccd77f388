"""`slurm-resilience checkpoints publish`: copies in a place that outlives the run directory."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.tiers.depot import Depot
    from slurm_resilience.checkpoint.tiers.publication import Parcel
    from slurm_resilience.checkpoint.tiers.publisher import Publisher, Result
    from slurm_resilience.checkpoint.tiers.publishing_plan import Candidate
    from slurm_resilience.checkpoint.tiers.throttle import Throttle
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal

LOOK_EVERY_S = 5.0
MOST_REST_S = 600.0
"""Before another try at one that could not be sent, while others are made."""


@click.command(cls=SentenceCommand, short_help="Copy them to a third place, an object store too.")
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.argument("checkpoints", nargs=-1, metavar="[CHECKPOINT]...")
@click.option("--to", "to", metavar="URL", help="Where to. [default: $SLURM_RESILIENCE_PUBLISH]")
@click.option("--limit", metavar="RATE", help="No more than this on average: 200MB/s. [default: no limit]")
@click.option("--newest", "--keep", "newest", type=click.IntRange(1), metavar="N", help="Only the N newest live ones.")
@click.option("--follow", is_flag=True, help="Go on until the run is finished, publishing what it commits.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs: an array, with --follow a line each.")
@click.option("--progress/--no-progress", default=None, help="Show a bar on stderr. [default: on a terminal]")
def publish(
    run: Path,
    checkpoints: tuple[str, ...],
    to: str | None,
    limit: str | None,
    newest: int | None,
    follow: bool,
    dry_run: bool,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Copy checkpoints of RUN to URL, the newest first: those named, or all live ones.

    URL is an absolute path, file:///path, or anything fsspec has a driver for: s3://bucket/runs/{run_id}. {run} and
    {run_id} are filled in, and $NAME from the environment. One place holds the checkpoints of one run.

    Every byte is compared with its checksum on the way, and a checkpoint counts as published when its last file is
    there. What a broken-off call has sent is not sent again. Files of checkpoints that the run forgets stay there:
    nothing is ever deleted at URL. Exit code 1 where one could not be published.

    SIGTERM and Ctrl-C end it after the block that is being sent; the same command goes on later.
    """
    from slurm_resilience.checkpoint.tiers.depots import depot_at
    from slurm_resilience.checkpoint.tiers.publication import claim
    from slurm_resilience.checkpoint.tiers.retry import persistently
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    journal = Journal(RunDirectory(run))
    chain = Chain.of(journal.read())
    names = _names(chain, run, checkpoints)
    depot = depot_at(_place(to, chain))
    throttle = throttle_of(limit)
    with StopSignals() as signals:
        publisher = _publisher(run, journal, depot, names, newest, signals)
        if dry_run:
            _show_plan(chain, depot, publisher.to_send(), as_json)
            return
        persistently(partial(claim, depot, chain.run_id, chain.name), clock=signals)
        results, interrupted = _work(publisher, journal, signals, throttle, follow, as_json, progress)
    if as_json and not follow:
        click.echo(json.dumps([as_value(each, depot.where) for each in results], indent=2))
    elif not results and not follow and not interrupted:
        click.echo(f"nothing to publish: what is live is at {depot.where}")
    if interrupted and not follow:
        click.echo("stopped; what was sent stays, and the same command goes on", err=True)
    if (interrupted and not follow) or any(as_value(each, "")["result"] == "failed" for each in results):
        raise click.exceptions.Exit(1)


def throttle_of(limit: str | None) -> Throttle | None:
    from slurm_resilience.checkpoint.tiers.pace import parse_rate
    from slurm_resilience.checkpoint.tiers.throttle import Throttle

    if limit is None:
        return None
    try:
        return Throttle(parse_rate(limit))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--limit") from error


def as_value(result: Result, where: str) -> dict[str, Any]:
    from slurm_resilience.checkpoint.tiers.publisher import Failed, Sent, Vanished

    match result:
        case Sent(checkpoint, size_bytes):
            return {"checkpoint": checkpoint, "result": "published", "bytes": size_bytes, "where": where, "why": None}
        case Vanished(checkpoint):
            why = "forgotten while it was sent"
            return {"checkpoint": checkpoint, "result": "skipped", "bytes": 0, "where": where, "why": why}
        case Failed(checkpoint, why):
            return {"checkpoint": checkpoint, "result": "failed", "bytes": 0, "where": where, "why": why}


def _names(chain: Chain, run: Path, names: tuple[str, ...]) -> list[str]:
    from slurm_resilience.cli.checkpoints.named import find_checkpoint

    return [find_checkpoint(chain, run, name).committed.checkpoint for name in names]


def _place(to: str | None, chain: Chain) -> Any:
    from slurm_resilience.checkpoint.tiers.places import PUBLISH, place_to_publish
    from slurm_resilience.errors import ConfigurationError

    place = place_to_publish(os.environ, option="--to", said=to, run=chain.name, run_id=chain.run_id)
    if place is None:
        raise ConfigurationError(f"where to publish is not said: --to URL, or the environment variable {PUBLISH}")
    return place


def _publisher(
    run: Path,
    journal: Journal,
    depot: Depot,
    names: list[str],
    newest: int | None,
    signals: StopSignals,
) -> Publisher:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.checkpoint.tiers.publisher import Publisher
    from slurm_resilience.cli.checkpoints.reading import packages_of_the_format
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.publishing import candidates, parcel_of, record_published

    store = Hdf5Store(run)

    def look() -> list[Candidate]:
        return candidates(Chain.of(journal.read()), depot.where, names)

    def parcel(checkpoint: str) -> Parcel:
        chain = Chain.of(journal.read())
        found = chain.checkpoint(checkpoint)
        assert found is not None, "it is a candidate, and the manifest forgets no name"
        with packages_of_the_format():
            return parcel_of(run, chain, found, store.head_of)

    return Publisher(
        depot,
        look=look,
        parcel=parcel,
        record=lambda checkpoint: record_published(journal, checkpoint, depot.where),
        clock=signals,
        newest=newest,
        say=lambda text: click.echo(text, err=True),
    )


def _work(
    publisher: Publisher,
    journal: Journal,
    signals: StopSignals,
    throttle: Throttle | None,
    follow: bool,
    as_json: bool,
    progress: bool | None,
) -> tuple[list[Result], bool]:
    """What was done, and whether somebody has ended it early. Each result is said when it is known."""
    from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
    from slurm_resilience.cli.checkpoints.reading import byte_bar
    from slurm_resilience.manifest.chain import Chain

    done: list[Result] = []
    rests_s: dict[str, float] = {}
    again_s: dict[str, float] = {}
    finished = False
    try:
        while not signals.asked():
            chain = Chain.of(journal.read())
            if chain.finished and not finished:
                finished = True
                again_s.clear()  # what could not be sent gets its last try
            sizes = {str(c.committed.checkpoint): sum(p.bytes for p in c.committed.parts) for c in chain.checkpoints}
            now_s = signals.monotonic_s()
            waiting = publisher.to_send(without=[name for name, at_s in again_s.items() if not follow or at_s > now_s])
            if waiting:
                size_bytes = sizes.get(waiting[0], 0)  # it may have come since the look at the chain
                with byte_bar(waiting[0], size_bytes, asked=progress) as advance:
                    result = publisher.publish_one(waiting[0], Transit(signals.asked, throttle, advance))
                done.append(result)
                # Longer and longer: what is damaged here would be read and sent up to there without end.
                rest_s = min(2 * rests_s.get(result.checkpoint, LOOK_EVERY_S / 2), MOST_REST_S)
                rests_s[result.checkpoint], again_s[result.checkpoint] = rest_s, signals.monotonic_s() + rest_s
                _say(result, follow, as_json)
            elif not follow or chain.finished:
                return done, False
            else:
                signals.sleep(LOOK_EVERY_S)
    except Interrupted:
        pass
    return done, True


def _say(result: Result, follow: bool, as_json: bool) -> None:
    from slurm_resilience.size import size_text

    value = as_value(result, "")
    if as_json:
        if follow:
            click.echo(json.dumps(value))
    elif value["result"] == "published":
        click.echo(f"{value['checkpoint']} is published ({size_text(value['bytes'])})")
    else:
        click.echo(f"{value['checkpoint']} {value['result']}: {value['why']}")


def _show_plan(chain: Chain, depot: Depot, waiting: list[str], as_json: bool) -> None:
    from slurm_resilience.size import size_text

    sizes = {str(each.committed.checkpoint): sum(p.bytes for p in each.committed.parts) for each in chain.checkpoints}
    if as_json:
        value = [{"checkpoint": name, "bytes": sizes.get(name, 0), "where": depot.where} for name in waiting]
        click.echo(json.dumps(value, indent=2))
        return
    for name in waiting:
        click.echo(f"would publish {name} ({size_text(sizes.get(name, 0))}) at {depot.where}")
    if not waiting:
        click.echo(f"nothing to publish: what is live is at {depot.where}")
