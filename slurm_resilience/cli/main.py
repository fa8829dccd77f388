"""The root command `slurm-resilience`: it knows its commands by name, and imports one only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

import click

from slurm_resilience import __version__
from slurm_resilience.cli.exits import SentenceGroup


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command lives, and the line that lists it: help must not cost the import of every command."""

    module: str
    attribute: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "preflight": Command("preflight", "preflight", "Say whether this job's nodes are fit for the training."),
    "canary": Command("canary", "canary", "Train a few steps, stop and resume, before the long job."),
    "status": Command("status", "status", "Show a run: its attempts, why each ended, its checkpoints."),
    "stop": Command("stop", "stop", "Ask a running run to save and stop, and not to go on."),
    "resume": Command("resume", "resume", "Finish what a dead supervisor left undone."),
    "triage": Command("triage", "triage", "Say why a training ended, where first, and what to do."),
    "checkpoints": Command("checkpoints", "checkpoints", "Look at a run's checkpoints, verify, keep, exchange them."),
    "spank": Command("spank", "spank", "Say whether the SPANK plugin is installed and loaded."),
    "template": Command("template", "template", "Print a batch script to start from."),
    "sandbox": Command("sandbox", "sandbox", "Run a small Slurm cluster on this machine."),
    "demo": Command("demo", "demo", "Watch a training be preempted and go on, here and now."),
    "completion": Command("completion", "completion", "Print the completion script of a shell."),
}


class LazyGroup(SentenceGroup):
    """A group whose commands are imported by name, one at a time; errors of ours leave as one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        module = importlib.import_module(f"slurm_resilience.cli.{command.module}")
        found = getattr(module, command.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{module.__name__}.{command.attribute} is no command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the one thing people mistype this for."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args and args[0] in ("srun", "torchrun", "run"):
                hint = f"{error.message} To start a training, put srun-resilient before its command."
                raise click.UsageError(hint, ctx) from error
            raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="slurm-resilience", message="%(prog)s %(version)s")
def cli() -> None:
    """Look after PyTorch training on Slurm that must survive preemption, time limits and failures.

    A training is started by the other program of this package, srun-resilient, as the last line of a batch script:

    \b
        exec srun-resilient torchrun train.py

    The commands here show what became of it, stop it, check its checkpoints, and let you try all of it on a small
    Slurm cluster of your own, on this machine, without touching a real one.

    RUN, wherever a command asks for it, is the run's directory: srun-resilient prints it when it starts.

    \b
    Exit codes:
        0   it was done
        1   it could not be done; one sentence says why
        2   the command line is wrong
        78  the run or its configuration is not usable
        79  the run belongs to another live attempt
    Commands that have others (preflight, canary, resume, ...) list them in their own --help.
    """


def main() -> None:
    """The console script."""
    cli(prog_name="slurm-resilience")


if __name__ == "__main__":
    main()
