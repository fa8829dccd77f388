"""`open_run`: what a training calls first."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.training.environment import read_environment
from slurm_resilience.training.rhythm import SaveRhythm
from slurm_resilience.training.run import Run


def open_run(
    *,
    save_every_minutes: float | None = 10,
    save_every_steps: int | None = None,
    run_dir: str | Path | None = None,
    keep_last: int = 3,
    from_scratch: bool = False,
) -> Run:
    """A run to be entered by `with`: it resumes by itself, saves by itself and leaves in order when asked to stop.

    Under srun-resilient the run directory is the one given there; otherwise `run_dir`, or `runs/<script>`.
    `from_scratch` allows starting at step 0 where the run has had checkpoints and none can be loaded any more.
    Raises ConfigurationError for arguments that can't be meant.
    """
    if save_every_minutes is not None and save_every_minutes <= 0:
        raise ConfigurationError(f"save_every_minutes is {save_every_minutes}: give a positive number, or None")
    if save_every_steps is not None and save_every_steps <= 0:
        raise ConfigurationError(f"save_every_steps is {save_every_steps}: give a positive number, or None")
    if keep_last < 1:
        raise ConfigurationError(f"keep_last is {keep_last}: the last checkpoint is always kept, give at least 1")
    environment = read_environment()
    directory = environment.run_directory
    if directory is None or not environment.supervised:
        directory = Path(run_dir) if run_dir is not None else Path("runs") / script_name()
    return Run(
        directory.absolute(),
        environment,
        rhythm=SaveRhythm(None if save_every_minutes is None else save_every_minutes * 60, save_every_steps),
        keep_last=keep_last,
        from_scratch=from_scratch or environment.from_scratch,
        clock=SystemClock(),
    )


def script_name() -> str:
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "run"
