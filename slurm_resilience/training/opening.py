"""`open_run`: what a training calls first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, get_args

from slurm_resilience.checkpoint.retention import MetricMode, Policy
from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.training.environment import read_environment
from slurm_resilience.training.pace import PaceSettings
from slurm_resilience.training.rhythm import SaveRhythm
from slurm_resilience.training.run import Run
from slurm_resilience.training.savers import SnapshotSettings, SnapshotUse
from slurm_resilience.training.settings import RunSettings


def open_run(
    *,
    save_every_minutes: float | Literal["auto"] | None = "auto",
    save_every_steps: int | None = None,
    run_dir: str | Path | None = None,
    keep_last: int = 3,
    keep_every: int | None = None,
    keep_best: int = 0,
    metric_mode: MetricMode = "min",
    from_scratch: bool = False,
    snapshot: SnapshotUse = "auto",
    overlap_snapshot: bool = False,
    if_still_saving: Literal["wait", "skip"] = "wait",
    second_place: str | Path | None = None,
) -> Run:
    """A run to be entered by `with`: it resumes by itself, saves by itself and leaves in order when asked to stop.

    "auto" saves as often as loses least time (Daly), by what a save costs and how often the chain or the site fails:
    at most once a minute, at least every half hour. Kept are the last `keep_last` checkpoints, the first at or after
    every multiple of `keep_every` steps, the `keep_best` with the best `run.metric`, and those that are pinned.
    Under srun-resilient the run directory is the one given there; otherwise `run_dir`, or SLURM_RESILIENCE_RUN (which
    Slurm's plugin sets), or `runs/<script>`.
    Periodic saves copy the state into memory and go on; a process of its own writes it. `snapshot` says whether there
    has to be memory for that: "auto" waits for saves where there isn't, "always" refuses to start, "never" waits.
    `overlap_snapshot` copies while the next step computes: only for trainings that change parameters and optimizer
    state in `optimizer.step()` alone. SLURM_RESILIENCE_SNAPSHOT (auto, always, never, overlap) overrides both.
    One save is in flight at a time: another that is due by minutes comes a little later, one that is due by steps waits
    for it, or is left out with `if_still_saving="skip"`.
    `second_place` is a folder on another disk, where a save goes that the run directory refuses: a stop's or the final
    one at once, a periodic one after two failures. SLURM_RESILIENCE_SECOND_PLACE comes before it.
    `from_scratch` allows starting at step 0 where the run has had checkpoints and none can be loaded any more.
    Raises ConfigurationError for arguments that can't be meant.
    """
    auto = save_every_minutes == "auto"
    minutes = None if auto or save_every_minutes is None else save_every_minutes
    if minutes is not None and (not isinstance(minutes, (int, float)) or not minutes > 0):
        raise ConfigurationError(f'save_every_minutes is {minutes!r}: give a positive number, "auto", or None')
    steps: object = save_every_steps  # programs read it from files
    if steps is not None and not (isinstance(steps, int) and steps > 0):
        raise ConfigurationError(f"save_every_steps is {steps!r}: give a positive whole number, or None")
    if if_still_saving not in ("wait", "skip"):
        raise ConfigurationError(f'if_still_saving is {if_still_saving!r}: give "wait" or "skip"')
    try:
        keep = Policy(keep_last, keep_every, keep_best, metric_mode)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    environment = read_environment()
    snapshots = _snapshot_settings(snapshot, overlap_snapshot, environment.snapshot, wait=if_still_saving == "wait")
    said = None if run_dir is None else Path(run_dir)
    directory = environment.run_directory if environment.supervised else said or environment.run_directory
    if directory is None:
        directory = Path("runs") / script_name()
    settings = RunSettings(
        SaveRhythm(None if minutes is None else minutes * 60, save_every_steps),
        keep,
        PaceSettings(auto),
        from_scratch or environment.from_scratch,
        snapshots,
        None if second_place is None else Path(second_place).absolute(),
    )
    return Run(directory.absolute(), environment, settings, SystemClock())


def _snapshot_settings(use: str, overlap: bool, override: str | None, *, wait: bool) -> SnapshotSettings:
    if override == "overlap":
        override, overlap = None, True
    said = use if override is None else override
    for known in get_args(SnapshotUse):
        if said == known:
            return SnapshotSettings(known, overlap, wait)
    where = "snapshot" if override is None else "SLURM_RESILIENCE_SNAPSHOT"
    raise ConfigurationError(f"{where} is {said!r}: give one of {', '.join(get_args(SnapshotUse))}")


def script_name() -> str:
    if not sys.argv or sys.argv[0] in ("", "-c", "-m"):
        return "run"
    script = Path(sys.argv[0])
    return script.absolute().parent.name if script.stem == "__main__" else script.stem  # python -m package
