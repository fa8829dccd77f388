"""The root command: it lists what there is, and says what went wrong in one sentence."""

from __future__ import annotations

import re
import shutil
import subprocess

import click
import pytest
from click.testing import CliRunner

from slurm_resilience import __version__
from slurm_resilience.cli import main
from slurm_resilience.cli.completion import SHELLS, completion
from slurm_resilience.cli.main import COMMANDS, cli
from slurm_resilience.errors import EXIT_OWNED, EXIT_WILL_GO_ON, ConfigurationError


def test_help_lists_every_command_with_its_summary() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", output, re.MULTILINE)


def test_version_is_the_packages() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"slurm-resilience {__version__}\n"


@pytest.mark.parametrize("word", ["srun", "torchrun", "run"])
def test_who_wants_to_start_a_training_here_is_told_where(word: str) -> None:
    done = CliRunner().invoke(cli, [word, "train.py"])
    assert done.exit_code == 2
    assert "put srun-resilient before its command" in done.output


def test_a_misspelt_command_is_one_sentence() -> None:
    done = CliRunner().invoke(cli, ["statsu"])
    assert done.exit_code == 2
    assert "No such command" in done.output
    assert "srun-resilient" not in done.output


@pytest.mark.parametrize("code", [EXIT_OWNED, EXIT_WILL_GO_ON])
def test_an_error_of_ours_leaves_by_its_own_exit_code(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ConfigurationError):
        exit_code = code

    @click.command()
    def broken() -> None:
        raise Broken("the run is not what you think")

    monkeypatch.setattr(cli, "get_command", lambda ctx, name: broken)
    done = CliRunner().invoke(cli, ["status"], prog_name="slurm-resilience")
    assert done.exit_code == code
    assert done.output == "slurm-resilience: the run is not what you think\n"


def test_a_command_that_is_none_is_our_mistake_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "COMMANDS", {"wrong": main.Command("main", "COMMANDS", "no command")})
    with pytest.raises(TypeError, match=r"main\.COMMANDS is no command"):
        CliRunner().invoke(cli, ["wrong"], catch_exceptions=False)


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script_that_asks_the_installed_program(shell: str) -> None:
    done = CliRunner().invoke(completion, [shell])
    assert done.exit_code == 0
    assert "_SLURM_RESILIENCE_COMPLETE" in done.output


def test_bash_can_read_its_completion() -> None:
    script = CliRunner().invoke(completion, ["bash"]).output
    bash = shutil.which("bash")
    assert bash is not None
    assert subprocess.run([bash, "-n"], input=script, text=True, check=False, timeout=100).returncode == 0


def test_completion_knows_the_commands() -> None:
    environment = {
        "_SLURM_RESILIENCE_COMPLETE": "bash_complete",
        "COMP_WORDS": "slurm-resilience st",
        "COMP_CWORD": "1",
    }
    done = CliRunner().invoke(cli, [], prog_name="slurm-resilience", env=environment)
    assert done.output.split() == ["plain,status", "plain,stop"]
