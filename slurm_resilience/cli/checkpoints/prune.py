"""`slurm-resilience checkpoints prune`: let old checkpoints go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.named import run_argument
from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.retention import MetricMode, Plan, Policy
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal


@click.command(cls=SentenceCommand, short_help="Let old ones go, by rules.")
@run_argument
@click.option("--keep-last", type=click.IntRange(min=1), required=True, help="Keep so many of those committed last.")
@click.option("--keep-best", type=click.IntRange(min=0), default=0, help="Keep so many of those with the best metric.")
@click.option(
    "--metric-mode",
    type=click.Choice(["min", "max"]),
    default="min",
    show_default=True,
    help="Whether the least metric is the best, or the greatest.",
)
@click.option("--keep-every", type=click.IntRange(min=1), help="Keep the first from every so many steps on.")
@click.option("--quarantined", is_flag=True, help="Let those go, too, that are in quarantine and not pinned.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and why, and do nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs. Needs --yes or --dry-run.")
def prune(
    run: Path,
    keep_last: int,
    keep_best: int,
    metric_mode: MetricMode,
    keep_every: int | None,
    quarantined: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let the checkpoints of RUN go that none of the options keeps. First the plan is shown, then asked.

    Always kept are the newest, the one that the next attempt would load, the last one that was verified, all that are
    pinned, damaged ones (for a person to look at) and, without --quarantined, those in quarantine. The manifest forgets
    a checkpoint before its files are deleted, so a crash in between leaves files that nobody counts on; the next
    `prune` or attempt deletes them.

    May be done while an attempt of the run is running: it never touches what that one has to load, and each of the two
    sees what the other has forgotten.

    \b
    Examples:
        slurm-resilience checkpoints prune RUN --keep-last 3 --dry-run
        slurm-resilience checkpoints prune RUN --keep-last 2 --keep-best 3 --metric-mode max
    """
    from slurm_resilience.checkpoint.retention import Policy
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    if as_json and not (yes or dry_run):
        raise click.UsageError("--json can't ask: add --yes, or --dry-run")
    policy = Policy(keep_last, keep_every, keep_best, metric_mode)
    journal = Journal(RunDirectory(run))
    chain = Chain.of(journal.read())
    plan = _plan(chain, policy, quarantined=quarantined)
    if not as_json:
        _print(chain, plan)
    if plan.forget and not dry_run and not yes:
        click.confirm(f"Delete the files of {len(plan.forget)}?", abort=True)
    failed: dict[str, str] = {}
    if not dry_run:
        plan = _forget(journal, policy, quarantined=quarantined)
        failed = _delete_forgotten(run, journal)
    if as_json:
        click.echo(json.dumps(_as_json(chain, plan, failed, done=not dry_run), indent=2))
    for checkpoint, why in failed.items():
        click.echo(f"{checkpoint} is forgotten, but its files could not be deleted: {why}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _plan(chain: Chain, policy: Policy, *, quarantined: bool) -> Plan:
    """Retention knows nothing of checkpoints in quarantine: only a person lets them go, and never the last ones."""
    from slurm_resilience.checkpoint.retention import Forget, Keep, plan_retention
    from slurm_resilience.manifest.chain import CheckpointState, live_of

    plan = plan_retention(live_of(chain.checkpoints), policy)
    aside = [each for each in chain.checkpoints if each.state is CheckpointState.QUARANTINED]
    names = [each.committed.checkpoint for each in aside if quarantined and each.pinned is None]
    if chain.loadable():
        return replace(plan, forget=(*plan.forget, *(Forget(name, "it is in quarantine") for name in names)))
    return replace(plan, keep=(*plan.keep, *(Keep(name, "in quarantine, and none is left to load") for name in names)))


def _forget(journal: Journal, policy: Policy, *, quarantined: bool) -> Plan:
    """Planned anew under the lock: meanwhile the run may have saved, and somebody may have pinned."""
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.records import CheckpointForgotten, CheckpointId

    with journal.writing() as writer:
        plan = _plan(Chain.of(writer.lines()), policy, quarantined=quarantined)
        writer.append(
            *(CheckpointForgotten(CheckpointId(each.checkpoint), f"prune: {each.why}") for each in plan.forget)
        )
    return plan


def _delete_forgotten(run: Path, journal: Journal) -> dict[str, str]:
    """The files of everything forgotten, this time or before. What could not be deleted, and why."""
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.errors import CheckpointError
    from slurm_resilience.manifest.chain import Chain, CheckpointState

    store = Hdf5Store(run)
    forgotten = {
        each.committed.checkpoint
        for each in Chain.of(journal.read()).checkpoints
        if each.state is CheckpointState.FORGOTTEN
    }
    failed = {}
    for checkpoint in store.found_on_disk():
        if checkpoint in forgotten:
            try:
                store.delete(checkpoint)
            except CheckpointError as error:
                failed[checkpoint] = str(error)
    return failed


def _sizes_bytes(chain: Chain) -> dict[str, int]:
    return {each.committed.checkpoint: sum(part.bytes for part in each.committed.parts) for each in chain.checkpoints}


def _print(chain: Chain, plan: Plan) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import count_text
    from slurm_resilience.size import size_text

    sizes_bytes = _sizes_bytes(chain)
    said = {each.checkpoint: ("keep", each.why) for each in plan.keep}
    said |= {each.checkpoint: ("let go", each.why) for each in plan.forget}
    rows = [[name, size_text(sizes_bytes[name]), *said[name]] for name in sizes_bytes if name in said]
    if rows:
        print_table([Column("checkpoint"), Column("size", number=True), Column("plan"), Column("why")], rows)
    freed_bytes = sum(sizes_bytes[each.checkpoint] for each in plan.forget)
    kept, gone = count_text(len(plan.keep), "checkpoint"), len(plan.forget)
    click.echo(f"{kept} kept, {gone} let go" + (f", {size_text(freed_bytes)} freed" if gone else ": nothing to do"))


def _as_json(chain: Chain, plan: Plan, failed: dict[str, str], *, done: bool) -> dict[str, Any]:
    sizes_bytes = _sizes_bytes(chain)
    halves: dict[str, Any] = {
        name: [
            {"checkpoint": each.checkpoint, "bytes": sizes_bytes.get(each.checkpoint), "why": each.why} for each in half
        ]
        for name, half in (("keep", plan.keep), ("forget", plan.forget))
    }
    return halves | {"done": done, "not_deleted": failed}
