"""`slurm-resilience completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete the commands and options of slurm-resilience.

    \b
    bash:  slurm-resilience completion bash > ~/.local/share/bash-completion/completions/slurm-resilience
    zsh:   slurm-resilience completion zsh > "${fpath[1]}/_slurm-resilience"
    fish:  slurm-resilience completion fish > ~/.config/fish/completions/slurm-resilience.fish

    The script asks the installed slurm-resilience, so it need not be printed again after an update.
    """
    from slurm_resilience.cli.main import cli  # it knows us by name; imported here, there is no circle

    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - click has had these three since 8.0
        raise click.UsageError(f"this click can't complete in {shell}")
    click.echo(found(cli, {}, "slurm-resilience", "_SLURM_RESILIENCE_COMPLETE").source())
