"""Which attempt of which run this is: told by srun-resilient, or begun by ourselves (`python train.py`: bare mode)."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

from slurm_resilience.errors import ManifestError
from slurm_resilience.manifest.attempt import begin_attempt, release
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import RunCreated
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.training.environment import Environment


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    run_id: str
    attempt: int


def identity_given(environment: Environment, journal: Journal) -> AttemptIdentity | None:
    """What srun-resilient says; None in bare mode."""
    if environment.attempt is None:
        return None
    if environment.run_id is not None:
        return AttemptIdentity(environment.run_id, environment.attempt)
    created = journal.read()[0].record
    assert isinstance(created, RunCreated)  # the journal makes sure
    return AttemptIdentity(created.run_id, environment.attempt)


def begin_bare(run: RunDirectory, journal: Journal, environment: Environment) -> AttemptIdentity:
    """Own the run, which is made if there is none. On rank 0 only. Raises RunOwned, ManifestError."""
    run_id = journal.create(run.path.name)
    attempt = begin_attempt(
        run,
        mode="bare",
        command=tuple(sys.argv),
        job=environment.job,
        restart_count=environment.restart_count,
        cluster=environment.cluster,
        nodes=environment.nodes,
        liveness_by_slurm=lambda _: Liveness.UNKNOWN,  # ranks never ask Slurm
        journal=journal,
    )
    return AttemptIdentity(run_id, attempt)


def end_bare(run: RunDirectory, attempt: int) -> None:
    """Let go of the run. If that fails, the next attempt finds our process gone."""
    with contextlib.suppress(ManifestError):
        release(run, attempt)
