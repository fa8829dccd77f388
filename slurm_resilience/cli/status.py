"""`slurm-resilience status`: what became of a run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.cli.outlook import Holder, Outlook
    from slurm_resilience.manifest.chain import Attempt, Chain

JSON_FORMAT = 1


@click.command(cls=SentenceCommand)
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
def status(run: Path, as_json: bool) -> None:
    """Show the run in directory RUN: its attempts, why each ended, its checkpoints, and what happens next."""
    from slurm_resilience.cli.outlook import outlook
    from slurm_resilience.cli.ownership import look_at_holder
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    directory = RunDirectory(run)
    chain = Chain.of(Journal(directory).read())
    holder = look_at_holder(directory, chain)
    next_ = outlook(run, chain, holder)
    if as_json:
        click.echo(json.dumps(_as_json(run, chain, holder, next_), indent=2))
    else:
        _print(run, chain, holder, next_)


def _print(run: Path, chain: Chain, holder: Holder | None, next_: Outlook) -> None:
    from slurm_resilience.cli.checkpoints import print_checkpoints
    from slurm_resilience.cli.wording import time_text

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
    live, places = _published(chain)
    for where, count in places.items():
        click.echo(f"published: {count} of {live} live checkpoints at {where}")
    if holder is not None:
        click.echo(f"owner: {holder.owner}: {holder.liveness.value}")
    click.echo(f"next: {next_.sentence}" + (f" (`{next_.command}`)" if next_.command else ""))


def _print_attempts(chain: Chain, *, running: bool) -> None:
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
                _number(_last_step(attempt)),
                _number(chain.steps_lost(attempt.number)),
                f"{ended.cause.value}: {ended.because}" if ended else "(running)" if still else "(nobody told)",
                None if ended is None else f"{ended.decision}: {ended.decision_reason}",
            ]
        )
    print_table(columns, rows)


def _last_step(attempt: Attempt) -> int | None:
    """The last step known of: told at the end, or else that of its last checkpoint."""
    if attempt.ended is not None and attempt.ended.step is not None:
        return attempt.ended.step
    return max((checkpoint.step for checkpoint in attempt.checkpoints), default=None)


def _published(chain: Chain) -> tuple[int, dict[str, int]]:
    """How many checkpoints are live, and how many of them lie at each place that any checkpoint was published at."""
    live = chain.loadable()
    places = dict.fromkeys(where for checkpoint in chain.checkpoints for where in checkpoint.published)
    return len(live), {where: sum(where in each.published for each in live) for where in places}


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value}"


def _as_json(run: Path, chain: Chain, holder: Holder | None, next_: Outlook) -> dict[str, Any]:
    from slurm_resilience.cli.checkpoints import checkpoint_as_json

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
        "owner": None if holder is None else _owner_as_json(holder),
        "attempts": [_attempt_as_json(chain, attempt) for attempt in chain.attempts],
        "checkpoints": [checkpoint_as_json(checkpoint) for checkpoint in chain.checkpoints],
        "published": {"live": live, "places": [{"where": where, "live": count} for where, count in places.items()]},
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


def _attempt_as_json(chain: Chain, attempt: Attempt) -> dict[str, Any]:
    started, resumed, stop, ended = attempt.started, attempt.resumed, attempt.stop_asked, attempt.ended
    return {
        "attempt": attempt.number,
        "mode": started.mode,
        "command": list(started.command),
        "host": started.host,
        "job": started.job,
        "restart_count": started.restart_count,
        "cluster": started.cluster,
        "nodes": started.nodes,
        "started_s": attempt.started_s,
        "resumed": resumed
        and {"checkpoint": resumed.checkpoint, "step": resumed.step, "world_size": resumed.world_size},
        "stop_asked": stop and {"reason": stop.reason, "because": stop.because},
        "ended": ended
        and {
            "time_s": attempt.ended_s,
            "cause": ended.cause.value,
            "because": ended.because,
            "evidence": list(ended.evidence),
            "decision": ended.decision,
            "decision_reason": ended.decision_reason,
            "command_code": ended.command_code,
            "step": ended.step,
            "exclude": list(ended.exclude),
        },
        "carried_out": attempt.carried_out and attempt.carried_out.how,
        "last_step": _last_step(attempt),
        "steps_lost": chain.steps_lost(attempt.number),
        "finished_step": attempt.finished_step,
        "checkpoints": [checkpoint.checkpoint for checkpoint in attempt.checkpoints],
        "saves_failed": [{"step": failed.step, "why": failed.why} for failed in attempt.saves_failed],
    }
