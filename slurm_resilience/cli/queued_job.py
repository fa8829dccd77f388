"""What Slurm says of the job that goes on with a run, asked from where the user sits."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import click

from slurm_resilience.cli.outlook import QueuedJob

TIMEOUT_S = 10.0
"""For all that is asked of Slurm here, together."""


def look_at_job(run: Path, job: str, *, timeout_s: float = TIMEOUT_S) -> QueuedJob | None:
    """None: there is no Slurm to ask here. Never raises; takes no longer than `timeout_s`."""
    if shutil.which("squeue") is None:
        return None
    from slurm_resilience.errors import SlurmError, SlurmUnavailable
    from slurm_resilience.requeue.held import explain_hold
    from slurm_resilience.slurm.client import JobRef
    from slurm_resilience.slurm.command_line import CommandLineSlurm

    asked_s = time.monotonic()
    try:
        record = CommandLineSlurm(environment=os.environ, timeout_s=timeout_s).job(JobRef(job))
    except SlurmUnavailable:
        return QueuedJob(job, None, "Slurm did not answer")
    except SlurmError as error:
        return QueuedJob(job, None, f"Slurm's answer is of no use: {error}")
    if record is None:
        return QueuedJob(job, None, "Slurm doesn't know it any more")
    left_s = timeout_s - (time.monotonic() - asked_s)
    configuration = None
    if left_s > 1:
        with contextlib.suppress(SlurmError):  # this cluster's delay and limits stay unsaid then
            configuration = CommandLineSlurm(environment=os.environ, timeout_s=left_s).configuration()
    held = explain_hold(record, configuration, now_s=time.time(), run=f"{run}")
    state = "COMPLETING" if record.completing else record.state.value
    return QueuedJob(job, state, state if held is None else f"{state}: {held.sentence}", held)


def print_job(queued: QueuedJob) -> None:
    held = queued.held
    helps = "" if held is None or held.command is None else f" (`{held.command}`, by {held.who.value})"
    click.echo(f"job {queued.job}: {queued.said}{helps}")


def job_as_json(queued: QueuedJob) -> dict[str, Any]:
    held = queued.held
    return {
        "job": queued.job,
        "state": queued.state,
        "said": queued.said,
        "never_starts_by_itself": None if held is None else held.for_ever,
        "command": None if held is None else held.command,
        "who": None if held is None else held.who.name.lower(),
    }
