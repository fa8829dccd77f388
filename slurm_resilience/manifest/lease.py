"""Who owns a run: one attempt at a time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ManifestDamaged, ManifestUnavailable, ManifestUnsupported
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Identity, Liveness, liveness

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    attempt: int
    host: str
    boot_id: str
    pid: int
    started_ticks: int
    pid_namespace: int | None
    job: str | None
    """The job as Slurm's commands want it; None outside of Slurm."""
    restart_count: int | None
    """None on a first start, as in Slurm's environment."""
    cluster: str | None
    taken_s: float
    """Seconds since the epoch."""

    @property
    def identity(self) -> Identity:
        return Identity(self.host, self.boot_id, self.pid, self.started_ticks, self.pid_namespace)

    def __str__(self) -> str:
        job = "" if self.job is None else f", Slurm job {self.job} (restart {self.restart_count or 0})"
        return f"attempt {self.attempt}, process {self.pid} on {self.host}{job}"


def this_process(
    *, attempt: int, job: str | None, restart_count: int | None, cluster: str | None, taken_s: float
) -> Owner:
    me = Identity.of_this_process()
    return Owner(
        attempt, me.host, me.boot_id, me.pid, me.started_ticks, me.pid_namespace, job, restart_count, cluster, taken_s
    )


def process_liveness(owner: Owner) -> Liveness:
    """As far as this host can tell; UNKNOWN for an owner on another host."""
    return liveness(owner.identity)


def read_lease(run: RunDirectory) -> Owner | None:
    """None: nobody owns the run. Raises ManifestDamaged, ManifestUnsupported, ManifestUnavailable."""
    try:
        raw = run.lease.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ManifestUnavailable(f"the lease {run.lease} is not available: {error.strerror or error}") from error
    try:
        value = json.loads(raw)
        written_by = value.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ManifestDamaged(run.lease, 1, "it doesn't say who owns the run") from None
    if written_by != FORMAT:
        raise ManifestUnsupported(f"{run.lease} has format {written_by!r}; this version knows format {FORMAT}")
    try:
        return Owner(**value)
    except TypeError:
        raise ManifestDamaged(run.lease, 1, "it doesn't say who owns the run") from None


def write_lease(run: RunDirectory, owner: Owner) -> None:
    """Only under the lock. Whenever we die in here, the lease names the old owner or the new one."""
    try:
        replace_durably(run.lease, json.dumps({"format": FORMAT, **asdict(owner)}, indent=1).encode())
    except OSError as error:
        raise ManifestUnavailable(f"the lease {run.lease} can't be written: {error.strerror or error}") from error
