"""The environment that a successor's job is submitted with. Pure.

Ours, without what Slurm and the launchers have put there for this job alone: SLURM_CPU_BIND would bind every rank of
the next job to the same few cores, SLURM_MEM_PER_NODE beside --mem-per-cpu would make sbatch refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEPT = "SLURM_CONF"
_KEPT_PREFIX = "SLURM_RESILIENCE_"
_LEFT_BEHIND = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "PMI", "TORCHELASTIC_")
"""What a name may not begin with: SLURM_*, SLURMD_*, PMI_*, PMI2_* and PMIX_* are among them."""
_NAMES = frozenset(
    "ENVIRONMENT RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK "
    "ROLE_WORLD_SIZE ROLE_NAME MASTER_ADDR MASTER_PORT SLURM_RESILIENCE_FROM_SCRATCH".split()
)
"""The last one was said once, to an attempt that has begun."""
_OF_A_STEP = frozenset({"SLURM_RESILIENCE_RELAY", "SLURM_RESILIENCE_END_FILE"})
"""Of one step on one node."""
_OF_AN_ATTEMPT = frozenset(
    "SLURM_RESILIENCE_ATTEMPT SLURM_RESILIENCE_RUN SLURM_RESILIENCE_RUN_ID SLURM_RESILIENCE_RUNTIME "
    "SLURM_RESILIENCE_SAVE_WAIT_S SLURM_RESILIENCE_END".split()
)
"""What the processes of an attempt are told, where it is one of them that submits."""
_DEVICES = frozenset(
    "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK GPU_DEVICE_ORDINAL".split()
)
_DEVICES_BY_SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
"""Where one of these is set, Slurm has chosen the devices; otherwise the user has."""


def successor_environment(environment: Mapping[str, str], *, name: str, said: str) -> dict[str, str]:
    """`said` under `name` tells the successor what it is.

    TMPDIR stays behind where this job's own number is in it: sites make such a folder for each job and remove it.
    """
    chosen_by_slurm = any(environment.get(each) for each in _DEVICES_BY_SLURM)
    kept = {
        key: value for key, value in environment.items() if _is_kept(key) and not (chosen_by_slurm and key in _DEVICES)
    }
    if "SLURM_RESILIENCE_ATTEMPT" in environment:
        kept = {key: value for key, value in kept.items() if key not in _OF_AN_ATTEMPT}
    if _holds(kept.get("TMPDIR", ""), environment.get("SLURM_JOB_ID", "")):
        del kept["TMPDIR"]
    return kept | {name: said}


def _is_kept(name: str) -> bool:
    if name in _NAMES or name in _OF_A_STEP:
        return False
    return name == _KEPT or name.startswith(_KEPT_PREFIX) or not name.startswith(_LEFT_BEHIND)


def _holds(path: str, number: str) -> bool:
    """The whole number, not a piece of another one."""
    return bool(number) and re.search(rf"(?<!\d){re.escape(number)}(?!\d)", path) is not None
