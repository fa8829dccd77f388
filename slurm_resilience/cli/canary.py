"""`slurm-resilience canary`: the training for a few steps, before the long job is let go."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.cli.srun_resilient import WITH_VALUE
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.srun_options import SrunLine, split

if TYPE_CHECKING:
    from slurm_resilience.rehearsal.canary_plan import Wanted
    from slurm_resilience.rehearsal.canary_report import Report
    from slurm_resilience.slurm.facts import JobFacts

PLAIN_S = 30.0
_ABOUT_US = ("-h", "--help")


class _Sorted(SentenceCommand):
    """Our options may stand anywhere before the command, among srun's and srun-resilient's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [option for option in self.params if isinstance(option, click.Option)]
        ours = {name[2:] for option in options for name in option.opts}
        with_value = {name[2:] for option in options if not option.is_flag for name in option.opts}
        if args and args[0] in _ABOUT_US:
            return super().parse_args(ctx, ["--help"])
        try:
            line = split(args, also_with_value=WITH_VALUE | with_value)
        except ConfigurationError as error:
            if any(word in _ABOUT_US for word in args):
                return super().parse_args(ctx, ["--help"])
            raise click.UsageError(str(error).replace("srun-resilient", "slurm-resilience canary"), ctx) from error
        said = [word for option in line.options if option.name in ours for word in option.words]
        theirs = line.without(frozenset(ours))
        return super().parse_args(ctx, [*said, "--", *theirs.words_without(), "--", *theirs.command])


@click.command(cls=_Sorted)
@click.option(
    "--run-dir",
    metavar="DIR",
    help="The long job's run: the canary's own runs are made in DIR.canary/. "
    "[default: $SLURM_RESILIENCE_RUN_DIR, or runs/<job name>]",
)
@click.option(
    "--steps", metavar="N", type=click.IntRange(1), default=6, show_default=True, help="Of each start, at least."
)
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(1),
    help="How long a command runs that doesn't use our library and so can't be stopped at a step. "
    f"[default: {PLAIN_S:g} for a plain command; torchrun's must use it]",
)
@click.option(
    "--patience",
    metavar="S",
    type=click.FloatRange(1),
    default=600,
    show_default=True,
    help="How long a single stage may take: a start, the steps, a stop.",
)
@click.option("--keep", is_flag=True, help="Leave the canary's runs where they are, although it passed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--dry-run", is_flag=True, help="Print the two lines that would be run; start nothing.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SRUN OPTIONS] [--] COMMAND...")
def canary(
    words: tuple[str, ...],
    run_dir: str | None,
    steps: int,
    seconds: float | None,
    patience: float,
    keep: bool,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Run a training for a few steps, before the long job is let go: does it stop, save and resume?

    COMMAND and the options before it are those that srun-resilient gets in the long job. They are run by
    srun-resilient on one node, then on all nodes: started, asked to stop after --steps steps, their checkpoint
    verified byte by byte, started again, looked at whether they go on with the next step, and stopped again. This
    happens in runs of its own, in RUN.canary/, which are removed afterwards, unless something failed.

    \b
        canary=$(sbatch --parsable canary.sbatch)
        sbatch --dependency=afterok:"${canary%%;*}" --kill-on-invalid-dep=yes train.sbatch

    \b
    Exit codes:
        0   passed
        2   failed, or the command line is wrong; one sentence says what failed first
        3   could not run: the canary's job was preempted, or the training was over too soon
        78  the line is not usable
    """
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.clock import SystemClock
    from slurm_resilience.rehearsal.canary import Canary
    from slurm_resilience.rehearsal.canary_job import queue_again_if_preempted
    from slurm_resilience.rehearsal.canary_plan import environment_of, parts_of
    from slurm_resilience.rehearsal.canary_report import Verdict
    from slurm_resilience.slurm.choice import choose_client
    from slurm_resilience.slurm.facts import job_facts
    from slurm_resilience.slurm.inherited import without_inherited

    line = split(words, also_with_value=WITH_VALUE)
    client = choose_client(os.environ, say=_say)
    facts = job_facts(without_inherited(os.environ, client.job))
    wanted, default = _wanted(line, facts)
    said = run_dir or os.environ.get("SLURM_RESILIENCE_RUN_DIR")
    folder = _own_folder((Path.cwd() / (said or default)).absolute(), facts)
    parts = parts_of(wanted, folder, sys.executable)
    if dry_run:
        for part in parts:
            click.echo(shlex.join(part.argv))
        return
    if seconds is None and _is_plain(wanted):
        seconds = PLAIN_S
    clock = SystemClock()
    with StopSignals() as signals:
        report = Canary(
            folder,
            parts,
            steps,
            patience,
            seconds,
            keep,
            clock,
            signals.asked,
            environment_of(os.environ),
            _say,
        ).sing()
    _print(report, as_json)
    if report.verdict is Verdict.COULD_NOT_RUN and facts is not None and facts.batch:
        queue_again_if_preempted(client, facts.job, _say)
    raise click.exceptions.Exit(int(report.verdict))


def _say(text: str) -> None:
    click.echo(f"canary: {text}", err=True)


def _wanted(line: SrunLine, facts: JobFacts | None) -> tuple[Wanted, Path]:
    """What is to be run, and the run's directory by default. Raises ConfigurationError."""
    from slurm_resilience.launch.plan import CommandKind
    from slurm_resilience.launch.training_command import understand
    from slurm_resilience.rehearsal.canary_plan import Wanted
    from slurm_resilience.requeue.limits import Limits
    from slurm_resilience.signals.ladder import Asked
    from slurm_resilience.supervisor.request import Request
    from slurm_resilience.supervisor.surroundings import Mode, choose_mode, choose_shape, default_run_directory

    plain = any(option.name == "plain" for option in line.options)
    command = understand(line.command, plain=plain)
    mode = line.value("mode") or "auto"
    request = Request(
        srun=line.without(WITH_VALUE | {"plain"}),
        command=command,
        words=line.command,
        run_dir=None,
        nproc_per_node=None,
        local_addr=None,
        interface=None,
        forward_signal=None,
        limits=Limits(),
        asked=Asked(),
        mode=mode,
        take_over=False,
        dry_run=False,
        requeue=False,
    )
    where = choose_mode(request, None if mode == "local" else facts, srun_found=shutil.which("srun") is not None)
    local = where is Mode.LOCAL
    shape = choose_shape(request, None if local else facts, where)
    tasks = line.value("ntasks")
    count = int(tasks) if tasks is not None and tasks.isdigit() else shape.tasks
    wanted = Wanted(line, command.kind, shape.nodes, count if command.kind is CommandKind.TASK else None, local)
    return wanted, default_run_directory(request, None if local else facts, Path.cwd())


def _is_plain(wanted: Wanted) -> bool:
    from slurm_resilience.launch.plan import CommandKind

    return wanted.kind is CommandKind.TASK


def _own_folder(run: Path, facts: JobFacts | None) -> Path:
    """A new one: what a canary before this one has left is left alone."""
    mine = f"{facts.job}-{facts.restart_count}" if facts is not None else f"local-{os.getpid()}"
    top = run.with_name(f"{run.name}.canary")
    number, folder = 1, top / mine
    while folder.exists():
        number, folder = number + 1, top / f"{mine}-{number + 1}"
    return folder


def _print(report: Report, as_json: bool) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.rehearsal.canary_report import as_json as json_of

    if as_json:
        click.echo(json_of(report))
        return
    columns = [Column("nodes"), Column("stage"), Column("outcome"), Column("seconds", number=True), Column("what")]
    rows = [
        [stage.part, stage.name, stage.shown.value, f"{stage.took_s:.1f}", stage.sentence] for stage in report.stages
    ]
    print_table(columns, rows)
    click.echo(f"\ncanary {report.outcome}: {report.sentence} ({report.took_s:.0f} s)")
    if report.kept:
        click.echo(f"its runs and outputs: {report.folder}; `slurm-resilience status {report.folder}/one-node`")
