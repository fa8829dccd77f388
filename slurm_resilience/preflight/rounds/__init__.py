"""What the nodes find out together: names, connections, shared storage, an all-reduce."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.round import Round
from slurm_resilience.preflight.rounds.all_reduce import Ready, share_of
from slurm_resilience.preflight.rounds.names import Names
from slurm_resilience.preflight.rounds.shared_storage import LookBefore
from slurm_resilience.preflight.rounds.tcp import Tcp


def rounds(
    *, all_reduce: bool, run_dir: Path | None, baselines: Mapping[str, Mapping[str, Any]], time_limit_s: float
) -> tuple[Round, ...]:
    """In order: what the later ones need is asked about by the earlier ones. `baselines` by node."""
    shared: tuple[Round, ...] = () if run_dir is None else (LookBefore(run_dir),)
    reduce: tuple[Round, ...] = (Ready(baselines, share_of(time_limit_s)),) if all_reduce else ()
    return (Names(), Tcp(), *shared, *reduce)
