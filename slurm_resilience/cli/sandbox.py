"""`slurm-resilience sandbox`: a Slurm cluster of your own on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # the command line must start at once: what does the work is loaded when it is asked for
    from slurm_resilience.sandbox.config import ClusterSpec

Command = TypeVar("Command", bound=Callable[..., Any])


def _folder_of(name: str) -> Path:
    if not name.isidentifier():
        raise click.BadParameter(f"{name!r} is not a plain word", param_hint="--name")
    return Path(tempfile.gettempdir()) / f"slurm-sandbox-{os.geteuid()}-{name}"


_name_option = click.option("--name", default="main", show_default=True, help="Which sandbox, when you have several.")

_SPEC_OPTIONS = (
    click.option("--nodes", type=int, default=4, show_default=True, help="Number of slurmds."),
    click.option("--cpus", type=int, default=8, show_default=True, help="CPUs each node claims to have."),
    click.option("--proctrack", type=click.Choice(["linuxproc", "cgroup"]), default="linuxproc", show_default=True),
    click.option("--grace", "grace_s", type=int, default=15, show_default=True, help="GraceTime of `low`, seconds."),
    click.option("--kill-wait", "kill_wait_s", type=int, default=10, show_default=True, help="KillWait, seconds."),
    click.option(
        "--cred-expire",
        "cred_expire_s",
        type=int,
        default=5,
        show_default=True,
        help="Seconds that Slurm holds a requeued job back, less one; 120 on most sites.",
    ),
    click.option(
        "--slurmd-timeout",
        "slurmd_timeout_s",
        type=int,
        default=15,
        show_default=True,
        help="Seconds until a silent node is down.",
    ),
    click.option("--min-job-age", "min_job_age_s", type=int, default=86400, show_default=True, help="MinJobAge."),
    click.option("--sched-interval", "sched_interval_s", type=int, default=1, show_default=True),
    click.option("--sched-min-interval", "sched_min_interval_us", type=int, default=100_000, show_default=True),
    click.option("--bf-interval", "bf_interval_s", type=int, default=1, show_default=True),
    click.option("--extra", multiple=True, help="A line to add to slurm.conf; may be given several times."),
)


def _spec_options(command: Command) -> Command:
    for option in reversed(_SPEC_OPTIONS):
        command = option(command)
    return command


def _spec(settings: dict[str, Any]) -> ClusterSpec:
    from slurm_resilience.sandbox.config import ClusterSpec

    return ClusterSpec(**settings)


@click.group()
def sandbox() -> None:
    """A Slurm cluster of your own on this machine: real daemons, no root needed, gone when you say so.

    Partition `low` (the default) is preempted by `high`, with a GraceTime and PreemptMode=REQUEUE.
    """


@sandbox.command()
@_name_option
@_spec_options
def up(name: str, **settings: Any) -> None:
    """Start a cluster that stays until `sandbox down`."""
    from slurm_resilience.sandbox.cluster import Cluster

    cluster = Cluster(_spec(settings), folder=_folder_of(name))
    cluster.up(outlive_me=True)
    environment = cluster.environment()
    click.echo(f"# {cluster.status().version}: nodes {', '.join(cluster.node_names)} are idle. To use it:")
    click.echo(f"export SLURM_CONF={environment['SLURM_CONF']}")


@sandbox.command()
@_name_option
@click.option("--keep", is_flag=True, help="Leave its folder, with the logs, behind.")
def down(name: str, keep: bool) -> None:
    """End the cluster, its jobs, and whatever they left running."""
    from slurm_resilience.sandbox.cluster import Cluster

    folder = _folder_of(name)
    Cluster.attach(folder).down(keep=keep)
    if keep:
        kept = folder.with_name(f"{folder.name}-kept-{os.getpid()}")
        folder.rename(kept)  # else the next `up` could not have its folder
        click.echo(f"the logs are in {kept / 'log'}")


@sandbox.command()
@_name_option
def status(name: str) -> None:
    """Say which daemons live and what the controller says of the nodes. Leaves with 1 when something is amiss."""
    from slurm_resilience.sandbox.cluster import Cluster

    found = Cluster.attach(_folder_of(name)).status()
    click.echo(f"{found.version} in {found.folder}")
    for daemon, alive in found.daemons.items():
        click.echo(f"  {daemon:<16} {'runs' if alive else 'does not run'}")
    if not found.nodes:
        click.echo("  the controller does not answer")
    for node, state in found.nodes.items():
        click.echo(f"  node {node:<11} {state}")
    if not found.healthy:
        raise SystemExit(1)


@sandbox.command(context_settings={"ignore_unknown_options": True})
@_spec_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], **settings: Any) -> None:
    """Run COMMAND with a cluster of its own, and leave with COMMAND's exit code. Put -- before COMMAND."""
    import subprocess

    from slurm_resilience.errors import CommandMissing
    from slurm_resilience.sandbox.cluster import Cluster

    with Cluster(_spec(settings)) as cluster:
        try:
            code = subprocess.run(list(command), check=False, env=cluster.environment()).returncode
        except (FileNotFoundError, PermissionError) as error:
            raise CommandMissing(f"there is no program {command[0]!r} here") from error
    raise SystemExit(code if code >= 0 else 128 - code)
