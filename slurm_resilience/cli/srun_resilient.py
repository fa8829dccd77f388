"""`srun-resilient`: put it where srun would stand."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from slurm_resilience import __version__
from slurm_resilience.cli.srun_request import PREFLIGHT_TIME_LIMIT_S, request_of
from slurm_resilience.errors import EXIT_CONFIGURATION, ConfigurationError, ResilienceError
from slurm_resilience.launch.srun_options import split
from slurm_resilience.requeue.limits import Limits

_LIMITS = Limits()
_Decorated = Callable[..., Any]


def _limit(name: str, default: int, of_what: str) -> Callable[[_Decorated], _Decorated]:
    """`--max-NAME`: how often since the last progress before the run is given up."""
    return click.option(
        f"--max-{name}",
        metavar="N",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        help=f"Give up after this many {of_what} since the last progress.",
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="srun-resilient", message="%(prog)s %(version)s")
@click.option(
    "--run-dir",
    metavar="DIR",
    help="The run's directory, seen by all nodes. [default: $SLURM_RESILIENCE_RUN_DIR, or runs/<job name> where sbatch "
    "was called]",
)
@click.option(
    "--nproc-per-node",
    metavar="N",
    help="Ranks on each node; `gpu`: as many as it has GPUs. [default: what torchrun was told, or the GPUs or tasks "
    "that the job asked for on a node, or 1]",
)
@click.option("--plain", is_flag=True, help="Run the command as it stands, one process a task, without torchrun.")
@click.option("--local-addr", metavar="ADDR", help="The first node's name or address as the other nodes reach it.")
@click.option("--interface", metavar="NAME", help="The network interface for Gloo and NCCL.")
@click.option(
    "--forward-signal",
    metavar="SIG",
    help="Signal to hand to rank processes that don't use our library, once: USR1 for Lightning.",
)
@click.option(
    "--stop-before-end",
    metavar="S",
    type=float,
    help="Stop this long before the job's end; 0: never. [default: $SLURM_RESILIENCE_STOP_BEFORE_END, or computed]",
)
@click.option(
    "--stop-timeout",
    metavar="S",
    type=float,
    help="After a warning without deadline, kill after this long. [default: 600, or 3 times the longest stop so far]",
)
@click.option(
    "--continue",
    "continue_by",
    type=click.Choice(["requeue", "chain"]),
    help="How a batch job's run goes on: the same job again (Slurm holds it back for two minutes), or a successor that "
    "is queued from the beginning and starts within seconds, whatever ended this one. "
    "[default: $SLURM_RESILIENCE_CONTINUE, or requeue]",
)
@click.option(
    "--chain-dependency",
    type=click.Choice(["afterany", "singleton"]),
    default="afterany",
    show_default=True,
    help="What a successor waits for: this job, or every job of its name.",
)
@_limit("stuck", _LIMITS.attempts_without_progress, "attempts in a row that gained no step")
@_limit("crashes", _LIMITS.crashes, "crashes")
@_limit("hangs", _LIMITS.hangs, "hangs")
@_limit("storage-faults", _LIMITS.storage_faults, "attempts ended by a full or broken file system")
@_limit("out-of-memory", _LIMITS.out_of_memory, "attempts that ran out of memory")
@_limit("node-failures", _LIMITS.node_failures, "failed nodes")
@_limit("never-started", _LIMITS.never_started, "attempts that Slurm could not start")
@_limit("quarantines", _LIMITS.quarantines, "checkpoints put aside because attempts die soon after loading them")
@click.option("--no-requeue", is_flag=True, help="Never ask Slurm to queue the job again.")
@click.option(
    "--from-scratch",
    is_flag=True,
    help="Begin at step 0 if none of the run's checkpoints can be "
    "loaded. One that can is loaded all the same: for a new start take another --run-dir.",
)
@click.option("--take-over", is_flag=True, help="My word that the run's former owner is gone, where nothing proves it.")
@click.option(
    "--preflight",
    is_flag=True,
    help="Look at the job's nodes before every attempt (see `slurm-resilience preflight`). "
    "[default: $SLURM_RESILIENCE_PREFLIGHT]",
)
@click.option(
    "--on-preflight",
    type=click.Choice(["exclude", "stop", "warn"]),
    help="What a failed preflight does: go on without the nodes that fail, start nothing, or only say so. "
    "[default: $SLURM_RESILIENCE_ON_PREFLIGHT, or exclude]",
)
@click.option(
    "--preflight-skip",
    metavar="CHECKS",
    help="Preflight's checks to do without, with commas between. [default: $SLURM_RESILIENCE_PREFLIGHT_SKIP]",
)
@click.option(
    "--preflight-time-limit",
    metavar="S",
    type=click.FloatRange(5),
    help=f"How long preflight may take. [default: {PREFLIGHT_TIME_LIMIT_S:g}]",
)
@click.option(
    "--publish",
    metavar="URL",
    help="Copy every durable checkpoint there beside the training: s3://bucket/runs/{run}. "
    "[default: $SLURM_RESILIENCE_PUBLISH]",
)
@click.option(
    "--publish-limit",
    metavar="RATE",
    help="No more than this on average: 200MB/s. [default: $SLURM_RESILIENCE_PUBLISH_LIMIT]",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "slurm", "local"]),
    default="auto",
    show_default=True,
    help="local: on this machine, started again in place; slurm: by srun; auto: by srun in a job, or where options of "
    "srun are given, and else on this machine.",
)
@click.option("--dry-run", is_flag=True, help="Print the exact srun line and the grace ladder; start nothing.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SRUN OPTIONS] [--] COMMAND...")
def command(words: tuple[str, ...], **options: Any) -> None:
    """Run a training under Slurm so that it goes on where it was, whatever ends it.

    Put it where srun would stand; in a batch script as its last line:

    \b
        exec srun-resilient torchrun train.py

    COMMAND is `torchrun ... train.py` (node count, ranks, rendezvous and signals are taken over), `python train.py`
    (torchrun is put before it), or anything else, which runs as plain tasks. Options may stand before, between and
    behind srun's; the first word that is no option begins the command.

    A warning (SIGTERM, SIGUSR1, SIGUSR2, the end of the job's time, `slurm-resilience stop RUN`) makes all ranks stop
    after one and the same step and save; the job is queued again; the next attempt resumes there. Without Slurm the
    command runs on this machine and is started again in place.

    \b
    Exit codes:
        0   the run is finished
        75  interrupted, and it will go on: the job is queued again
        76  interrupted, and it will not go on by itself
        77  preflight refused: nothing was started, and nothing will be by itself
        78  the command line or the run's configuration is wrong
        79  the run belongs to another live attempt
        other codes are the command's own; 128 + n: signal n ended it
    """
    sys.exit(_supervise(words, options))


_ABOUT_US = ("-h", "--help", "-V", "--version")
OURS = frozenset(name[2:] for option in command.params if isinstance(option, click.Option) for name in option.opts)
WITH_VALUE = frozenset(
    name[2:]
    for option in command.params
    if isinstance(option, click.Option) and not option.is_flag
    for name in option.opts
)


def _supervise(words: tuple[str, ...], options: dict[str, Any]) -> int:
    from slurm_resilience.clock import SystemClock
    from slurm_resilience.slurm.choice import choose_client
    from slurm_resilience.slurm.facts import job_facts
    from slurm_resilience.slurm.inherited import without_inherited
    from slurm_resilience.supervisor.choice import supervisor_for
    from slurm_resilience.supervisor.voice import say

    environment = dict(os.environ)
    if options["from_scratch"]:
        environment["SLURM_RESILIENCE_FROM_SCRATCH"] = "yes"
    client = choose_client(environment, say=say)
    if options["mode"] != "local":
        environment = without_inherited(environment, client.job)
    supervisor = supervisor_for(
        request_of(words, options),
        # Whoever asks for local mode may stand in a step: an interactive `srun --pty bash`, say.
        job_facts(environment) if options["mode"] != "local" else None,
        client,
        clock=SystemClock(),
        environment=environment,
        working_directory=Path.cwd(),
    )
    if not options["dry_run"]:
        return supervisor.supervise()
    for text in supervisor.describe():
        click.echo(text)
    return 0


def main() -> None:
    """The console script. Our options are picked out from among srun's; a user's error leaves as one sentence."""
    try:
        command.main(args=_sorted_out(sys.argv[1:]), prog_name="srun-resilient", standalone_mode=False)
    except ResilienceError as error:
        _leave_with(str(error), error.exit_code)
    except click.ClickException as error:
        _leave_with(error.format_message(), EXIT_CONFIGURATION)  # click's own 2 could be the command's
    except OSError as error:  # a full disk, say, where the attempt's plan is to be written
        _leave_with(str(error), 1)


def _sorted_out(words: list[str]) -> list[str]:
    """Our options, then srun's and the command, as click is to see them."""
    try:
        line = split(words, also_with_value=WITH_VALUE)
    except ConfigurationError:
        if words and words[-1] in _ABOUT_US:
            return words[-1:]
        raise
    for option in line.options:  # not in the command: `train.py --help` is for train.py
        if option.words[0] in _ABOUT_US:
            return [option.words[0]]
    ours = [word for option in line.options if option.name in OURS for word in option.words]
    theirs = line.without(OURS)
    return [*ours, "--", *theirs.words_without(), "--", *theirs.command]


def _leave_with(sentence: str, code: int) -> None:
    click.echo(f"srun-resilient: {sentence}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
