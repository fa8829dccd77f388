"""Rows for people: drawn on a terminal, plain columns where a program reads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    number: bool = False
    """Numbers stand to the right."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str | None]]) -> None:
    """`None` is what nobody knows, and is shown as a dash. Without a terminal nothing is wrapped or cut."""
    texts = [[_text(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, texts)
    else:
        _print_plainly(columns, texts)


def _text(cell: str | None) -> str:
    return "-" if cell is None else " ".join(cell.split())  # one row, one line, whatever somebody's message holds


def _draw(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.name, justify="right" if column.number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: square brackets in a message are no markup
    Console().print(table)


def _print_plainly(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    names = [column.name for column in columns]
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        cells = [
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())
