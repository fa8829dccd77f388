"""How a command leaves: an error of ours is one sentence on stderr and its own exit code, never a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from slurm_resilience.errors import ResilienceError


@contextlib.contextmanager
def errors_as_sentences(program: str) -> Iterator[None]:
    """Where click runs a command. `program` is what the user has called."""
    try:
        yield
    except ResilienceError as error:
        click.echo(f"{program}: {error}", err=True)
        raise click.exceptions.Exit(error.exit_code) from error


class SentenceCommand(click.Command):
    """`@click.command(cls=SentenceCommand)`"""

    def invoke(self, ctx: click.Context) -> Any:
        with errors_as_sentences(ctx.find_root().info_name or "slurm-resilience"):
            return super().invoke(ctx)


class SentenceGroup(click.Group):
    """`@click.group(cls=SentenceGroup)`: for all commands below it."""

    def invoke(self, ctx: click.Context) -> Any:
        with errors_as_sentences(ctx.find_root().info_name or "slurm-resilience"):
            return super().invoke(ctx)
