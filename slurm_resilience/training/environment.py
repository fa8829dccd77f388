"""The one door to the environment of a rank: what srun-resilient, torchrun and Slurm say about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.tiers.pace import parse_rate
from slurm_resilience.checkpoint.tiers.places import Folder, parse_place
from slurm_resilience.environment_variable import quantity, whole_number
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Environment:
    run_directory: Path | None
    """Under srun-resilient the run's, whatever the program says; otherwise where the program says nothing."""
    run_id: str | None
    attempt: int | None
    """None: nobody manages us, the run is opened bare."""
    runtime_folder: Path | None
    """The node's pages; None in bare mode."""
    rank: int
    local_rank: int
    world_size: int
    """As the launcher says; 1 without a launcher."""
    from_scratch: bool
    has_launcher: bool
    """Whether our parent is a launcher that we may not outlive."""
    job: str | None = None
    """The Slurm job as its commands want it, if we are in one: `123` or `123_4`."""
    restart_count: int | None = None
    cluster: str | None = None
    nodes: str | None = None
    local_world_size: int = 1
    """How many ranks this node has."""
    end_s: float | None = None
    """When the job's time is over, in seconds since the epoch."""
    snapshot: str | None = None
    """`auto`, `always`, `never` or `overlap`, where whoever started the run had a say in it."""
    world_size_may_change: bool = False
    """Whether a checkpoint of another number of ranks may be gone on from."""
    node_mtbf_days: float | None = None
    """How often a node of this site fails, where the site says so."""
    second_place: Path | None = None
    """Where parts go that the run directory refuses."""
    ballast_cap_bytes: int | None = None
    """How large the ballast gets at most, where somebody had a say in it; 0: there is none."""
    relay: Path | None = None
    """The folder of the relay that hears for this rank, where nobody manages us and Slurm's plugin does."""
    end_file: Path | None = None
    """Where it stands when the job's time is over, once that has moved."""

    @property
    def supervised(self) -> bool:
        return self.attempt is not None


def _yes(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").lower() in ("yes", "1", "true")


def _bytes(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "").strip()
    if text in ("", "0"):
        return 0 if text else None
    try:
        return int(parse_rate(text))
    except ValueError as error:
        raise ConfigurationError(f"the environment variable {name} is {text!r}: say it like 2GiB, or 0") from error


def _folder(variables: Mapping[str, str], name: str) -> Path | None:
    text = variables.get(name)
    if not text:
        return None
    try:
        place = parse_place(text, variables)
    except ConfigurationError as error:
        raise ConfigurationError(f"the environment variable {name}: {error}") from error
    if not isinstance(place, Folder):
        raise ConfigurationError(f"the environment variable {name} is {text!r}: it has to be a folder")
    return place.path


def _first(*numbers: int | None, otherwise: int) -> int:
    found = _first_or_none(*numbers)
    return otherwise if found is None else found


def _first_or_none(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """What the environment says. torchrun's word about ranks comes before Slurm's: Slurm only sees the launcher."""
    variables = os.environ if variables is None else variables
    attempt = whole_number(variables, "SLURM_RESILIENCE_ATTEMPT")
    run = variables.get("SLURM_RESILIENCE_RUN")
    if attempt is not None and not run:
        raise ConfigurationError("SLURM_RESILIENCE_ATTEMPT is set, but SLURM_RESILIENCE_RUN is not")
    runtime = variables.get("SLURM_RESILIENCE_RUNTIME")
    return Environment(
        run_directory=Path(run) if run else None,
        run_id=variables.get("SLURM_RESILIENCE_RUN_ID") or None,
        attempt=attempt,
        runtime_folder=Path(runtime) if runtime and attempt is not None else None,
        rank=_first(whole_number(variables, "RANK"), whole_number(variables, "SLURM_PROCID"), otherwise=0),
        local_rank=_first(whole_number(variables, "LOCAL_RANK"), whole_number(variables, "SLURM_LOCALID"), otherwise=0),
        # Not SLURM_NTASKS: that is the job's, and true of a batch script's own processes too.
        world_size=_first(
            whole_number(variables, "WORLD_SIZE"), whole_number(variables, "SLURM_STEP_NUM_TASKS"), otherwise=1
        ),
        from_scratch=_yes(variables, "SLURM_RESILIENCE_FROM_SCRATCH"),
        world_size_may_change=_yes(variables, "SLURM_RESILIENCE_WORLD_SIZE_MAY_CHANGE"),
        has_launcher=attempt is not None or "TORCHELASTIC_RUN_ID" in variables,
        job=_job(variables),
        restart_count=whole_number(variables, "SLURM_RESTART_COUNT"),
        cluster=variables.get("SLURM_CLUSTER_NAME") or None,
        nodes=variables.get("SLURM_JOB_NODELIST") or None,
        local_world_size=_first(
            whole_number(variables, "LOCAL_WORLD_SIZE"),
            _tasks_here(variables.get("SLURM_STEP_TASKS_PER_NODE")),
            otherwise=1,
        ),
        end_s=_first_or_none(
            whole_number(variables, "SLURM_RESILIENCE_END"), whole_number(variables, "SLURM_JOB_END_TIME")
        ),
        snapshot=variables.get("SLURM_RESILIENCE_SNAPSHOT") or None,
        node_mtbf_days=quantity(variables, "SLURM_RESILIENCE_NODE_MTBF_DAYS", "days", may_be_zero=False),
        second_place=_folder(variables, "SLURM_RESILIENCE_SECOND_PLACE"),
        ballast_cap_bytes=_bytes(variables, "SLURM_RESILIENCE_BALLAST"),
        relay=_path(variables, "SLURM_RESILIENCE_RELAY") if attempt is None else None,
        end_file=_end_file(variables, run, attempt),
    )


def _path(variables: Mapping[str, str], name: str) -> Path | None:
    text = variables.get(name)
    return Path(text) if text else None


def _end_file(variables: Mapping[str, str], run: str | None, attempt: int | None) -> Path | None:
    """Slurm's plugin has it on the node; under srun-resilient it lies in the attempt's folder."""
    if attempt is not None and run:
        return RunDirectory(Path(run)).end_of_time(attempt)
    return _path(variables, "SLURM_RESILIENCE_END_FILE")


def _tasks_here(text: str | None) -> int | None:
    """The most of `4(x2),3`: which node we are on is not worth asking for."""
    counts = [part.partition("(")[0] for part in (text or "").split(",")]
    return max((int(count) for count in counts if count.isdigit()), default=None)


def _job(variables: Mapping[str, str]) -> str | None:
    """Array tasks by array and index: the plain id of the last one means the whole array to Slurm."""
    array, task = variables.get("SLURM_ARRAY_JOB_ID"), variables.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else variables.get("SLURM_JOB_ID") or None
