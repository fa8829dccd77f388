"""`slurm-resilience preflight`: are the nodes of this job fit for the training?"""

from __future__ import annotations

import os
import shlex
import shutil
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.environment_variable import first_number
from slurm_resilience.errors import ResilienceError

if TYPE_CHECKING:
    from slurm_resilience.preflight.report import Report
    from slurm_resilience.preflight.request import PreflightRequest, Registry
    from slurm_resilience.preflight.step import Step
    from slurm_resilience.preflight.way import Surroundings

COULD_NOT_RUN = 3


def _could_not_run(error: click.UsageError) -> None:
    """Give it our exit code; click's own is 2."""
    vars(error)["exit_code"] = COULD_NOT_RUN


class PreflightCommand(click.Command):
    """1 and 2 are said of nodes here: whatever else goes wrong, a wrong command line too, leaves with 3."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            _could_not_run(error)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _could_not_run(error)
            raise
        except ResilienceError as error:
            click.echo(f"slurm-resilience: {error}", err=True)
            raise click.exceptions.Exit(COULD_NOT_RUN) from error
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # a mistake of ours says nothing about a node
            traceback.print_exc()
            raise click.exceptions.Exit(COULD_NOT_RUN) from error


def _size(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    from slurm_resilience.checkpoint.tiers.pace import parse_rate

    if text is None:
        return None
    wrong = click.BadParameter(f"{text!r} is no size: say it like 80GB or 1.5TiB", ctx, parameter)
    if "/" in text:
        raise wrong
    try:
        return int(parse_rate(text))
    except ValueError as error:
        raise wrong from error


def _names(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.replace(",", " ").split())


@click.command(cls=PreflightCommand, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--nodes", metavar="N|LIST", help="Only these nodes: how many, or Slurm's list of them, n[1-4].")
@click.option("--only", multiple=True, metavar="CHECK", callback=_names, help="Only these; again, or with commas.")
@click.option("--skip", multiple=True, metavar="CHECK", callback=_names, help="Without these; again, or with commas.")
@click.option("--list", "list_", is_flag=True, help="List the checks, and end.")
@click.option(
    "--run-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    envvar="SLURM_RESILIENCE_RUN_DIR",
    help="Where the run is to be: its storage is looked at, and the report is kept there. "
    "[default: $SLURM_RESILIENCE_RUN_DIR]",
)
@click.option(
    "--checkpoint-size",
    metavar="SIZE",
    callback=_size,
    help="Of one checkpoint, all ranks together: 80GB. [default: that of the run's newest one]",
)
@click.option("--nproc-per-node", metavar="N", type=click.IntRange(1), help="How many ranks a node will have.")
@click.option("--interface", metavar="NAME", help="The network interface that the training will use.")
@click.option("--python", metavar="PATH", help="The interpreter of the training. [default: this one]")
@click.option(
    "--all-reduce/--no-all-reduce",
    default=True,
    help="Whether to measure an all-reduce between the nodes. [default: where torch can be imported]",
)
@click.option(
    "--time-limit",
    metavar="S",
    type=click.FloatRange(1.0),
    default=60.0,
    show_default=True,
    help="For everything, from the start, or where it has to queue for its nodes from the first one's word.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object for programs.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Write that JSON there too.")
@click.option("--admin", is_flag=True, help="Also print the scontrol lines that would drain unfit nodes. Never run.")
@click.option("--dry-run", is_flag=True, help="Print the srun line and the checks; start nothing.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "slurm", "local"]),
    default="auto",
    show_default=True,
    help="local: this machine alone; slurm: by srun; auto: by srun in a job, or where nodes are asked for.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SRUN OPTIONS]")
def preflight(words: tuple[str, ...], **options: Any) -> None:
    """Look at the nodes of this job, and at what lies between them, before a training is started on them.

    Nothing on them is changed, but for test files that are removed again. One process runs on each, with your rights;
    each check runs in a process of its own and is killed when it takes too long: whatever hangs, there is an answer in
    the end.

    \b
    In a batch script or salloc   slurm-resilience preflight
    As a step of a job            srun slurm-resilience preflight
    From a login node             slurm-resilience preflight --nodes=4 -- -p gpu --exclusive
    Without Slurm                 slurm-resilience preflight, which looks at this machine

    The report is kept in RUN/preflight/JOB-RESTART.json, where triage finds it. What was measured is kept by node, for
    the next time, in $SLURM_RESILIENCE_BASELINES [default: ~/.local/state/slurm-resilience/baselines].

    \b
    Exit codes:
        0   nothing was found
        1   a warning, or a check that could not find out
        2   a failure: a node is unfit, or the training would fail on any
        3   preflight could not run; one sentence says why
    """
    from slurm_resilience.cli.preflight_report import list_checks, show
    from slurm_resilience.preflight.planned_step import step_for
    from slurm_resilience.preflight.registry import registered
    from slurm_resilience.preflight.report import as_json
    from slurm_resilience.preflight.way import Way, surroundings

    registry = registered(os.environ)
    request = _request(options, registry)
    if options["list_"]:
        list_checks(_known(registry, request))
        return
    srun = shutil.which("srun") is not None
    here = surroundings(os.environ, mode=options["mode"], nodes=options["nodes"], words=words, srun_found=srun)
    if here.way is Way.STEP and not here.first:
        return  # task 0 does it for all of them
    step, argv = step_for(here, request, options["nodes"], words, os.environ)
    if options["dry_run"]:
        click.echo(shlex.join(argv))
        click.echo(f"checks: {', '.join(name for name in _known(registry, request) if request.wants(name))}")
        return
    report = _run(request, step, registry, here)
    _keep(report, request, options["output"])
    if options["as_json"]:
        click.echo(as_json(report))
    else:
        show(report, _known(registry, request), admin=options["admin"])
    _leave(report.exit_code)


def _request(options: dict[str, Any], registry: Registry) -> PreflightRequest:
    from slurm_resilience.preflight.request import START_LIMIT_S, PreflightRequest
    from slurm_resilience.preflight.run_files import checkpoint_bytes_of

    run = options["run_dir"].absolute() if options["run_dir"] else None
    request = PreflightRequest(
        run_dir=run,
        checkpoint_bytes=options["checkpoint_size"] or (checkpoint_bytes_of(run) if run else None),
        ranks_per_node=options["nproc_per_node"] or first_number(os.environ, "SLURM_NTASKS_PER_NODE"),
        interface=options["interface"],
        python=options["python"],
        all_reduce=options["all_reduce"],
        only=options["only"],
        skip=options["skip"],
        time_limit_s=options["time_limit"],
        start_limit_s=max(START_LIMIT_S, options["time_limit"] / 3),
    )
    known = _known(registry, request)
    for name in (*request.only, *request.skip):
        if name not in known:
            raise click.BadParameter(f"there is no check {name!r}; --list shows them", param_hint="--only and --skip")
    for name in request.only:
        if name in registry.about_across:
            hint = f"{name} compares what other checks have found: ask for those, and it comes with them"
            raise click.BadParameter(hint, param_hint="--only")
    return request


def _known(registry: Registry, request: PreflightRequest) -> dict[str, str]:
    """Everything that can be looked at, with what that is."""
    from slurm_resilience.preflight.request import OWN, about

    run_dir = request.run_dir or Path("/")
    rounds = registry.rounds(all_reduce=True, run_dir=run_dir, baselines={}, time_limit_s=request.time_limit_s)
    checks = {check.name: check.what for check in registry.checks}
    return {**OWN, **checks, **{round_.name: about(round_) for round_ in rounds}, **registry.about_across}


def _run(request: PreflightRequest, step: Step, registry: Registry, here: Surroundings) -> Report:
    from slurm_resilience.cli.preflight_report import progress
    from slurm_resilience.cli.stop_signals import StopSignals
    from slurm_resilience.preflight.conductor import preflight as conduct
    from slurm_resilience.preflight.way import Way, job_of

    local = here.way is Way.LOCAL
    job = (None, 0) if local else job_of(os.environ)
    with StopSignals() as signals, progress() as say:
        return conduct(request, step, registry, say=say, stopped=signals.asked, under_slurm=not local, job=job)


def _keep(report: Report, request: PreflightRequest, output: Path | None) -> None:
    from slurm_resilience.manifest.run_directory import RunDirectory
    from slurm_resilience.preflight.run_files import keep

    places = [output] if output else []
    if request.run_dir is not None and report.exit_code != COULD_NOT_RUN:  # an earlier one of this job says more
        places.append(RunDirectory(request.run_dir).preflight(report.job, report.restart))
    for place in places:
        trouble = keep(report, place)
        if trouble is not None:
            click.echo(f"slurm-resilience: {trouble}", err=True)


def _leave(code: int) -> None:
    """Past threads that may still wait for a file system."""
    from slurm_resilience.preflight.run_files import some_hang
    from slurm_resilience.process_exit import leave_at_once

    if some_hang():
        leave_at_once(code)
    raise click.exceptions.Exit(code)
