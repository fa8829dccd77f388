"""What all commands have in common: tables, quantities, ways to leave."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from slurm_resilience.cli.exits import SentenceCommand, SentenceGroup
from slurm_resilience.cli.main import cli
from slurm_resilience.cli.srun_resilient import command as srun_resilient
from slurm_resilience.cli.table import Column, print_table
from slurm_resilience.cli.wording import count_text, duration_text
from slurm_resilience.errors import (
    CheckpointUnavailable,
    ConfigurationError,
    Fenced,
    ManifestUnavailable,
    ResilienceError,
    SlurmUnavailable,
)

COLUMNS = [Column("name"), Column("steps", number=True), Column("why")]


def test_columns_stand_under_each_other_and_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [["a", "5", None], ["a long name", "1200", "x\ny   z"]])
    assert capsys.readouterr().out.splitlines() == [
        "name         steps  why",
        "a                5  -",
        "a long name   1200  x y z",
    ]


def test_a_table_without_rows_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [])
    assert capsys.readouterr().out == "name  steps  why\n"


def test_on_a_terminal_square_brackets_are_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    print_table(COLUMNS, [["[red]node[1-2][/red]", "5", "[bold]"]])
    out = capsys.readouterr().out
    assert "[red]node[1-2][/red]" in out
    assert "[bold]" in out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_durations_read_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_one_is_not_many() -> None:
    assert [count_text(count, "rank") for count in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("a"),
        Fenced(1, 2),
        ManifestUnavailable("b"),
        CheckpointUnavailable("c"),
        SlurmUnavailable("d"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_ours_is_a_sentence_on_stderr_and_its_code(error: ResilienceError) -> None:
    @click.command(cls=SentenceCommand)
    def alone() -> None:
        raise error

    @click.group(cls=SentenceGroup)
    def group() -> None:
        pass

    @group.command()
    def below() -> None:
        raise error

    for command, arguments, program in ((alone, [], "alone"), (group, ["below"], "group")):
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == error.exit_code
        assert result.stderr == f"{program}: {error}\n"
        assert result.stdout == ""


def test_an_error_of_the_program_itself_is_not_hidden() -> None:
    @click.command(cls=SentenceCommand)
    def broken() -> None:
        raise KeyError

    assert isinstance(CliRunner().invoke(broken).exception, KeyError)


def commands_below(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands_below(found, (*path, name))


def test_no_help_is_wider_than_a_hundred_columns() -> None:
    runner = CliRunner()
    asked = [(cli, words) for words in [(), *commands_below(cli)]]
    for program, words in [*asked, (srun_resilient, ())]:
        shown = runner.invoke(program, [*words, "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        assert [line for line in shown.output.splitlines() if len(line) > 100] == [], words
