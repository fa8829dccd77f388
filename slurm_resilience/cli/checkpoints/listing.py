"""`slurm-resilience checkpoints list`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.named import read_chain, run_argument
from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.manifest.chain import Chain, Checkpoint


@click.command("list", cls=SentenceCommand, short_help="The checkpoints of a run, and what is known of each.")
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array for programs, with the files of each.")
def list_(run: Path, as_json: bool) -> None:
    """List the checkpoints that the manifest of RUN names, the oldest first.

    Only what the manifest names exists: files that lie around besides are no checkpoints.

    The last columns say what is known beyond that: the metric that the training gave (if it gave one), and whether the
    checkpoint is pinned, verified (every byte was read once and was right) and published (a copy lies elsewhere).
    """
    chain = read_chain(run)
    if as_json:
        click.echo(json.dumps([checkpoint_as_json(each, parts=True) for each in chain.checkpoints], indent=2))
        return
    if chain.checkpoints:
        print_checkpoints(chain)
    else:
        click.echo(f"run {run} has no checkpoint yet")
    for staged in chain.staged:
        if not staged.durable:
            record = staged.record
            click.echo(f"only staged on {record.where}, gone with its nodes: {record.checkpoint} (step {record.step})")


def print_checkpoints(chain: Chain) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import duration_text, time_text
    from slurm_resilience.size import size_text

    with_metric = any(each.committed.metric is not None for each in chain.checkpoints)
    with_marks = any(map(_marks, chain.checkpoints))
    columns = [
        Column("checkpoint"),
        Column("step", number=True),
        Column("saved"),
        Column("reason"),
        Column("ranks", number=True),
        Column("size", number=True),
        Column("took", number=True),
        *([Column("metric", number=True)] if with_metric else []),
        Column("state"),
        *([Column("marks")] if with_marks else []),
    ]
    rows: list[list[str | None]] = []
    for checkpoint in chain.checkpoints:
        committed = checkpoint.committed
        metric = None if committed.metric is None else f"{committed.metric:.6g}"
        rows.append(
            [
                committed.checkpoint,
                f"{committed.step}",
                time_text(checkpoint.time_s),
                committed.reason.value,
                f"{committed.world_size}",
                size_text(_size_bytes(checkpoint)),
                f"{committed.seconds:.1f} s" if committed.seconds < 60 else duration_text(committed.seconds),
                *([metric] if with_metric else []),
                checkpoint.state.value + (f": {checkpoint.why}" if checkpoint.why else ""),
                *([_marks(checkpoint) or None] if with_marks else []),
            ]
        )
    print_table(columns, rows)


def _marks(checkpoint: Checkpoint) -> str:
    marks = []
    if checkpoint.pinned is not None:
        marks.append(f"pinned ({checkpoint.pinned})")
    if checkpoint.verified:
        marks.append("verified")
    if checkpoint.published:
        marks.append(f"published ({', '.join(checkpoint.published)})")
    return ", ".join(marks)


def checkpoint_as_json(checkpoint: Checkpoint, *, parts: bool = False) -> dict[str, Any]:
    committed = checkpoint.committed
    value: dict[str, Any] = {
        "checkpoint": committed.checkpoint,
        "step": committed.step,
        "attempt": committed.attempt,
        "time_s": checkpoint.time_s,
        "reason": committed.reason.value,
        "world_size": committed.world_size,
        "bytes": _size_bytes(checkpoint),
        "seconds": committed.seconds,
        "stall_s": committed.stall_s,
        "metric": committed.metric,
        "state": checkpoint.state.value,
        "why": checkpoint.why,
        "pinned": checkpoint.pinned,
        "verified": checkpoint.verified,
        "published": list(checkpoint.published),
    }
    if parts:
        value["parts"] = [
            {"rank": part.rank, "file": part.file, "bytes": part.bytes, "checksum": part.checksum}
            for part in committed.parts
        ]
    return value


def _size_bytes(checkpoint: Checkpoint) -> int:
    return sum(part.bytes for part in checkpoint.committed.parts)
