"""`slurm-resilience status`: what became of a run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.cli.budget import Budgets
    from slurm_resilience.cli.outlook import Holder, Outlook, QueuedJob
    from slurm_resilience.manifest.chain import Attempt, Chain, Checkpoint

JSON_FORMAT = 1


@click.command(cls=SentenceCommand)
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--attempt", "number", type=int, metavar="N", help="Everything that is known of attempt N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def status(run: Path, number: int | None, as_json: bool) -> None:
    """Show the run in directory RUN: its attempts, why each ended, its checkpoints, and what happens next.

    Where Slurm can be asked, and a job of the run is queued, it is said why that doesn't start yet and what helps. That
    takes 10 seconds at most.

    \b
    Exit codes:
        0   it was shown, however the run stands: programs take `--json`, and there `next`
        2   the command line is wrong
        78  there is no run in RUN, or it cannot be read
    """
    from slurm_resilience.cli.budget import budgets_of
    from slurm_resilience.cli.outlook import considering, outlook, waiting_job
    from slurm_resilience.cli.ownership import look_at_holder
    from slurm_resilience.cli.queued_job import look_at_job
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    directory = RunDirectory(run)
    chain = Chain.of(Journal(directory).read())
    attempt = None if number is None else _attempt(run, chain, number)
    holder = look_at_holder(directory, chain)
    if attempt is not None:
        _show_attempt(run, chain, attempt, holder, as_json=as_json)
        return
    job = waiting_job(chain, holder)
    queued = None if job is None else look_at_job(run, job)
    next_ = considering(outlook(run, chain, holder), run, queued)
    told = Told(run, chain, holder, next_, budgets_of(directory, chain), queued)
    if as_json:
        click.echo(json.dumps(_as_json(told), indent=2))
    else:
        _print(told)


@dataclass(frozen=True, slots=True)
class Told:
    """All that is shown of a run."""

    run: Path
    chain: Chain
    holder: Holder | None
    next_: Outlook
    budgets: Budgets
    queued: QueuedJob | None
    """None: nothing is queued, as far as the journal knows, or there is no Slurm to ask."""


def _attempt(run: Path, chain: Chain, number: int) -> Attempt:
    from slurm_resilience.errors import ConfigurationError

    attempt = chain.attempt(number)
    if attempt is None:
        newest = chain.newest_attempt
        count = "none yet" if newest is None else f"those up to {newest.number}"
        raise ConfigurationError(f"run {run} has no attempt {number}: it has {count}")
    return attempt


def _show_attempt(run: Path, chain: Chain, attempt: Attempt, holder: Holder | None, *, as_json: bool) -> None:
    from slurm_resilience.cli.attempt_report import attempt_as_json, print_attempt

    if as_json:
        click.echo(json.dumps(attempt_as_json(run, chain, attempt), indent=2))
    else:
        print_attempt(run, chain, attempt, running=_runs(chain, attempt, holder))


def _runs(chain: Chain, attempt: Attempt, holder: Holder | None) -> bool:
    return holder is not None and holder.liveness.value == "alive" and attempt is chain.newest_attempt


def _print(told: Told) -> None:
    from slurm_resilience.cli.budget import print_budgets
    from slurm_resilience.cli.checkpoints import print_checkpoints
    from slurm_resilience.cli.outlook import is_bare
    from slurm_resilience.cli.queued_job import print_job
    from slurm_resilience.cli.wording import time_text

    run, chain, holder, next_ = told.run, told.chain, told.holder, told.next_
    click.echo(f"run {chain.name} in {run}, created {time_text(chain.created_s)}, id {chain.run_id}")
    if chain.attempts:
        click.echo()
        _print_attempts(chain, running=holder is not None and holder.liveness.value == "alive")
    if chain.checkpoints:
        click.echo()
        print_checkpoints(chain)
    click.echo()
    loadable = chain.loadable()
    if loadable:
        last = loadable[0].committed
        click.echo(f"last checkpoint: {last.checkpoint}; the next attempt goes on from step {chain.next_step}")
    elif chain.ever_had_checkpoint:
        click.echo("last checkpoint: none of them can be loaded any more")
    else:
        click.echo("last checkpoint: none yet")
    for checkpoint in _quarantined(chain):
        name = checkpoint.committed.checkpoint
        helps = f"`slurm-resilience checkpoints release {run} {name}`"
        click.echo(f"in quarantine: {name}: {checkpoint.why} ({helps})")
    live, places = _published(chain)
    for where, count in places.items():
        click.echo(f"published: {count} of {live} live checkpoints at {where}")
    if chain.attempts and not chain.finished and not is_bare(chain):  # nobody keeps one for a bare attempt
        print_budgets(told.budgets)
    if holder is not None:
        click.echo(f"owner: {holder.owner}: {holder.liveness.value}")
    newest = chain.newest_attempt
    if newest is not None and newest.successor is not None and not chain.finished:
        click.echo(f"successor of attempt {newest.number}: job {newest.successor}")
    if told.queued is not None:
        print_job(told.queued)
    click.echo(f"next: {next_.sentence}" + (f" (`{next_.command}`)" if next_.command else ""))


def _quarantined(chain: Chain) -> list[Checkpoint]:
    from slurm_resilience.manifest.chain import CheckpointState

    return [each for each in chain.checkpoints if each.state is CheckpointState.QUARANTINED]


def _print_attempts(chain: Chain, *, running: bool) -> None:
    from slurm_resilience.cli.attempt_report import last_step
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import duration_text, time_text

    columns = [
        Column("attempt", number=True),
        Column("job"),
        Column("restart", number=True),
        Column("started"),
        Column("ran", number=True),
        Column("from step", number=True),
        Column("to step", number=True),
        Column("lost", number=True),
        Column("ended by"),
        Column("then"),
    ]
    rows = []
    for attempt in chain.attempts:
        ended, still = attempt.ended, running and attempt is chain.newest_attempt
        until_s = time.time() if still else attempt.ended_s
        rows.append(
            [
                f"{attempt.number}",
                attempt.started.job,
                None if attempt.started.job is None else f"{attempt.started.restart_count or 0}",
                time_text(attempt.started_s),
                None if until_s is None else duration_text(until_s - attempt.started_s),
                None if attempt.resumed is None else f"{attempt.resumed.step}",
                _number(last_step(attempt)),
                _number(chain.steps_lost(attempt.number)),
                f"{ended.cause.value}: {ended.because}" if ended else "(running)" if still else "(nobody told)",
                None if ended is None else f"{ended.decision}: {ended.decision_reason}",
            ]
        )
    print_table(columns, rows)


def _published(chain: Chain) -> tuple[int, dict[str, int]]:
    """How many checkpoints are live, and how many of them lie at each place that any checkpoint was published at."""
    live = chain.loadable()
    places = dict.fromkeys(where for checkpoint in chain.checkpoints for where in checkpoint.published)
    return len(live), {where: sum(where in each.published for each in live) for where in places}


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value}"


def _as_json(told: Told) -> dict[str, Any]:
    from slurm_resilience.cli.attempt_report import attempt_as_json
    from slurm_resilience.cli.budget import budgets_as_json
    from slurm_resilience.cli.checkpoints import checkpoint_as_json
    from slurm_resilience.cli.queued_job import job_as_json

    run, chain, holder, next_ = told.run, told.chain, told.holder, told.next_
    loadable = chain.loadable()
    live, places = _published(chain)
    return {
        "format": JSON_FORMAT,
        "run": str(run.absolute()),
        "run_id": chain.run_id,
        "name": chain.name,
        "created_s": chain.created_s,
        "finished": chain.finished,
        "next_step": chain.next_step,
        "last_checkpoint": loadable[0].committed.checkpoint if loadable else None,
        "attempts_without_progress": chain.attempts_without_progress,
        "budgets": budgets_as_json(told.budgets),
        "owner": None if holder is None else _owner_as_json(holder),
        "attempts": [attempt_as_json(run, chain, attempt) for attempt in chain.attempts],
        "checkpoints": [checkpoint_as_json(checkpoint) for checkpoint in chain.checkpoints],
        "published": {"live": live, "places": [{"where": where, "live": count} for where, count in places.items()]},
        "quarantined": [each.committed.checkpoint for each in _quarantined(chain)],
        "queued_job": None if told.queued is None else job_as_json(told.queued),
        "next": {"sentence": next_.sentence, "command": next_.command},
    }


def _owner_as_json(holder: Holder) -> dict[str, Any]:
    owner = holder.owner
    return {
        "attempt": owner.attempt,
        "host": owner.host,
        "pid": owner.pid,
        "job": owner.job,
        "restart_count": owner.restart_count,
        "cluster": owner.cluster,
        "taken_s": owner.taken_s,
        "liveness": holder.liveness.value,
    }
