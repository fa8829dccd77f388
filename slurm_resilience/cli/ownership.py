"""Who holds a run, seen from where the user sits."""

from __future__ import annotations

import os
import shutil

from slurm_resilience.cli.outlook import Holder
from slurm_resilience.errors import SlurmError
from slurm_resilience.manifest.attempt import live_owner
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.lease import Owner, process_liveness
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness

_TIMEOUT_S = 10.0


def look_at_holder(run: RunDirectory, chain: Chain) -> Holder | None:
    """None: the run is free. Slurm is asked where the owner's process can't be seen from here and Slurm can."""
    owner = live_owner(run, chain)
    if owner is None:
        return None
    seen = process_liveness(owner)
    if seen is Liveness.UNKNOWN and owner.job is not None and shutil.which("scontrol") is not None:
        seen = _ask_slurm(owner)
    return Holder(owner, seen)


def _ask_slurm(owner: Owner) -> Liveness:
    from slurm_resilience.slurm.command_line import CommandLineSlurm
    from slurm_resilience.supervisor.ownership import liveness_by_slurm

    slurm = CommandLineSlurm(environment=os.environ, timeout_s=_TIMEOUT_S)
    try:
        cluster = slurm.configuration().cluster
    except SlurmError:
        return Liveness.UNKNOWN
    return liveness_by_slurm(slurm, owner, cluster, False)
