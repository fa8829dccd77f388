"""Preflight's report for people."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping

import click

from slurm_resilience.cli.table import Column, print_table
from slurm_resilience.cli.wording import count_text
from slurm_resilience.launch.host_list import fold
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.summary import remedies, rows, slowest


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """What tells on standard error how far it is: on a terminal one line that changes, a line each elsewhere."""
    if not sys.stderr.isatty():
        yield lambda sentence: click.echo(f"preflight: {sentence}", err=True)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("preflight") as status:
        yield lambda sentence: status.update(escape(f"preflight: {sentence}"))


def list_checks(known: Mapping[str, str]) -> None:
    print_table([Column("CHECK"), Column("LOOKS AT")], [*known.items()])


def show(report: Report, known: Mapping[str, str], *, admin: bool) -> None:
    """`known`: what each check looks at."""
    table = rows(report.results, report.nodes, known, fold)
    if table:
        columns = [Column("CHECK"), Column("OUTCOME"), Column("NODES"), Column("WHAT")]
        print_table(columns, [[row.check, row.word, row.nodes, row.what] for row in table])
        click.echo()
    for line in remedies(report.results, report.nodes, fold):
        click.echo(f"to do: {line}")
    if admin:
        for line in report.drain:
            click.echo(line)
    slow = slowest(report.results)
    longest = ""
    if slow is not None and slow.took_s is not None:
        longest = f"; the slowest check: {slow.check}, {slow.took_s:.1f} s{f' on {slow.node}' if slow.node else ''}"
    click.echo(f"{count_text(len(report.nodes), 'node')}, {report.took_s:.1f} s{longest}")
    click.echo(f"{report.outcome}: {report.sentence}")
