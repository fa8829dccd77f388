"""Which supervisor there is to be: where we are decides what we may ask."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.client import SlurmClient
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.request import Request
from slurm_resilience.supervisor.supervise import Supervisor
from slurm_resilience.supervisor.surroundings import (
    Mode,
    choose_mode,
    choose_shape,
    default_run_directory,
    refuse_chain_elsewhere,
    refuse_what_cannot_be_requeued,
)


def supervisor_for(
    request: Request,
    facts: JobFacts | None,
    slurm: SlurmClient,
    *,
    clock: Clock,
    environment: Mapping[str, str],
    working_directory: Path,
) -> Supervisor:
    """Raises ConfigurationError."""
    mode = choose_mode(request, facts, srun_found=shutil.which("srun") is not None)
    refuse_chain_elsewhere(request, mode)
    refuse_what_cannot_be_requeued(request, mode, scontrol_found=shutil.which("scontrol") is not None)
    local = mode is Mode.LOCAL
    shape = choose_shape(request, None if local else facts, mode)  # a mistake in it is told before a run begins
    folder = request.run_dir or default_run_directory(request, None if local else facts, working_directory)
    return Supervisor(
        request,
        mode,
        shape,
        None if local else facts,
        None if local else slurm,
        clock,
        environment,
        RunDirectory((working_directory / folder).absolute()),
    )
