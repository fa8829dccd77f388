"""`slurm-resilience completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete the commands and options of slurm-resilience.

    In a shell's start file:

    \b
        ~/.bashrc                   eval "$(slurm-resilience completion bash)"
        ~/.zshrc, behind compinit   eval "$(slurm-resilience completion zsh)"
        ~/.config/fish/config.fish  slurm-resilience completion fish | source

    The script asks the installed slurm-resilience, so it need not be printed again after an update.
    """
    from slurm_resilience.cli.main import cli  # it knows us by name; imported here, there is no circle

    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - click has had these three since 8.0
        raise click.UsageError(f"this click can't complete in {shell}")
    click.echo(found(cli, {}, "slurm-resilience", "_SLURM_RESILIENCE_COMPLETE").source())
