"""`slurm-resilience triage`: what happened, where first, what followed, how sure that is, and what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand

if TYPE_CHECKING:
    from slurm_resilience.supervisor.triage_of_run import Asked
    from slurm_resilience.triage.account.account import Account

EXIT_NOT_NAMED = 1
_SLURM_S = 10.0


@click.command(cls=SentenceCommand)
@click.argument("what", nargs=-1, required=True, metavar="RUN|JOB|FILES…")
@click.option("--attempt", "number", type=click.IntRange(min=1), metavar="N", help="Tell of attempt N of the run.")
@click.option("--slurm/--no-slurm", "slurm", default=None, help="Ask Slurm, or don't. [default: where it is there]")
@click.option(
    "--node-log",
    "node_logs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A kernel log, or a folder of them, besides. Can be given several times.",
)
@click.option("--all", "everything", is_flag=True, help="Show every line, every other suspect, everything not read.")
@click.option("--width", type=click.IntRange(min=40), metavar="N", help="Columns of the report. [default: terminal's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
@click.option("--watch", is_flag=True, help="Watch RUN or JOB while it runs, and name trouble before it ends.")
@click.option(
    "--silent-after",
    "silent_after_s",
    type=click.FloatRange(min=1),
    metavar="S",
    help="With --watch: how long without any output is trouble. [default: 300, or 10 times the usual gap]",
)
@click.option("--every", "every_s", type=click.FloatRange(min=0.1), default=10.0, metavar="S", hidden=True)
@click.pass_context
def triage(
    context: click.Context,
    what: tuple[str, ...],
    number: int | None,
    slurm: bool | None,
    node_logs: tuple[Path, ...],
    everything: bool,
    width: int | None,
    as_json: bool,
    watch: bool,
    silent_after_s: float | None,
    every_s: float,
) -> None:
    """Say why a training ended: what happened, on which rank and node first, what only followed, and what to do.

    The first argument is a run's directory (then it is about its newest ended attempt), the number of a job (its output
    files are found by Slurm, or here by their names), or files. Whatever follows are more files or folders: outputs of
    jobs, torchrun's log folders and error files, kernel logs, flight recorder dumps, preflight's reports, exit notes.
    They are told apart by what stands in them. A folder stands for all that lies below it.

    Nobody is asked but Slurm, and where it is not there the files alone are read. The clocks of the
    nodes are corrected where preflight has measured them; times without a zone are taken as this machine's.

    With --watch, one line (or JSON object) is printed for each new trouble: no new output, steps that have become slow,
    saves that fail, retries, GPU errors, agents that fall silent. It ends with the run, and tells the account then.

    \b
    Exit codes:
        0   a cause was found (or, with --watch, somebody pressed Ctrl-C)
        1   nothing names a cause
        2   the command line is wrong
        78  there is nothing usable to read
    """
    from slurm_resilience.triage.account.as_json import as_json as to_json

    asked = _asked(slurm, node_logs)
    if watch:
        from slurm_resilience.cli.triage_watch import watch_it

        if not watch_it(what, number, asked, as_json=as_json, silent_after_s=silent_after_s, every_s=every_s):
            context.exit(0)
    account = _account(what, number, asked)
    if as_json:
        click.echo(json.dumps(to_json(account), indent=None if watch else 2))
    else:
        _print(account, width, everything)
    context.exit(0 if account.named else EXIT_NOT_NAMED)


def _asked(slurm: bool | None, node_logs: tuple[Path, ...]) -> Asked:
    """Raises UsageError where Slurm is to be asked and isn't here."""
    from slurm_resilience.supervisor.triage_of_run import Asked

    there = shutil.which("scontrol") is not None
    if slurm and not there:
        raise click.UsageError("--slurm: there is no scontrol on PATH.")
    folders = (Path.cwd(),)
    missing = [path for path in node_logs if not path.exists()]
    if missing:
        raise click.UsageError(f"--node-log={missing[0]}: there is no such file.")
    if slurm is False or not there:
        return Asked(None, None, _complain, node_logs, folders)
    from slurm_resilience.slurm.command_line import CommandLineSlurm
    from slurm_resilience.slurm.commands import Commands, own_environment

    commands = Commands(own_environment(os.environ), _SLURM_S)
    client = CommandLineSlurm(environment=os.environ, timeout_s=_SLURM_S)
    return Asked(client, commands, _complain, node_logs, folders)


def _account(what: tuple[str, ...], number: int | None, asked: Asked) -> Account:
    from dataclasses import replace

    from slurm_resilience.errors import ConfigurationError
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.supervisor.triage_of_job import account_of_job, job_ref
    from slurm_resilience.supervisor.triage_of_run import account_of_run
    from slurm_resilience.triage.account.case import account_of_files
    from slurm_resilience.triage.account.facts import Facts

    first, rest = Path(what[0]), tuple(map(Path, what[1:]))
    job = None if first.exists() else job_ref(what[0])
    paths = rest if job is not None else (first, *rest)
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise ConfigurationError(f"{path}: there is no such file or directory")
    with_more = replace(asked, extra=(*asked.extra, *rest))
    if job is not None:
        return account_of_job(job, number, with_more)
    if RunDirectory(first).journal.is_file():
        return account_of_run(first, number, with_more)
    listed = ", ".join(map(str, paths)) if len(paths) < 3 else f"{paths[0]} and {len(paths) - 1} other paths"
    facts = Facts(about=listed, attempt=number)
    return account_of_files([*paths, *asked.extra], facts, progress=asked.progress, workers=asked.workers)


def _print(account: Account, width: int | None, everything: bool) -> None:
    from slurm_resilience.cli.triage_report import report

    columns = width if width is not None else shutil.get_terminal_size((100, 24)).columns
    for line in report(account, width=columns, everything=everything):
        click.echo(line)


def _complain(sentence: str) -> None:
    click.echo(sentence, err=True)
