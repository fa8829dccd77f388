"""What Slurm's plugin told of an attempt, in `slurm-resilience status`: how its tasks ended, what ailed its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_resilience.manifest.chain import Attempt, Chain
    from slurm_resilience.triage.exit_notes import ExitNote
    from slurm_resilience.triage.health_notes import HealthNote

MOST_ROWS = 64
"""Of a larger step only those that did not leave with 0 are worth reading, and no more than so many."""


def told_by_plugin(run: Path, chain: Chain, attempt: Attempt) -> tuple[tuple[ExitNote, ...], tuple[HealthNote, ...]]:
    """The oldest end first, health by node; nothing where there is no plugin."""
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.supervisor.witnesses import health_of_nodes, task_ends

    directory = RunDirectory(run)
    return task_ends(directory, chain, attempt, _complain), health_of_nodes(directory, attempt, _complain)


def _complain(sentence: str) -> None:
    click.echo(sentence, err=True)


def print_task_ends(run: Path, chain: Chain, attempt: Attempt) -> None:
    """A line for each node that ails, and a table of the tasks' ends; nothing where nobody told any."""
    notes, health = told_by_plugin(run, chain, attempt)
    for note in health:
        click.echo(f"{'health':>14}  {note}")
    if notes:
        click.echo()
        _print_table(notes)


def _print_table(notes: tuple[ExitNote, ...]) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.cli.wording import count_text, time_text

    shown = notes
    if len(notes) > MOST_ROWS:
        shown = tuple(note for note in notes if note.status != 0)[:MOST_ROWS]
    columns = [Column("task", number=True), Column("node"), Column("ended by"), Column("at")]
    rows = [[f"{note.rank}", note.node, _how(note), time_text(note.time_s)] for note in shown]
    print_table(columns, rows)
    if len(shown) < len(notes):
        click.echo(f"and {count_text(len(notes) - len(shown), 'other task')}: --json has all of them")


def _how(note: ExitNote) -> str:
    if note.signal is not None:
        return note.signal
    return f"exit code {note.code}" + ("" if note.last_signal is None else f" ({note.last_signal})")


def as_json(run: Path, chain: Chain, attempt: Attempt) -> dict[str, Any]:
    notes, health = told_by_plugin(run, chain, attempt)
    return {
        "tasks": [
            {
                "rank": note.rank,
                "node": note.node,
                "step": note.step,
                "pid": note.pid,
                "code": note.code,
                "signal": note.signal,
                "time_s": note.time_s,
            }
            for note in notes
        ],
        "health": [{"node": note.node, "mode": note.mode.value, "findings": list(note.findings)} for note in health],
    }
