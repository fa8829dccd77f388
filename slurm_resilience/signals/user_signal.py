"""The warning that a job has ordered from Slurm by `--signal`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserSignal:
    name: str
    """USR1, say."""
    lead_s: float
    """How long before the end of the time limit; Slurm may send it 60 s earlier still. 0: only at a preemption."""
    batch_shell: bool
    """`B:`: the batch shell alone hears it, and not the steps."""
    source: str
    """Where it stands: `#SBATCH --signal`, say."""
