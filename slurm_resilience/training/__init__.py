"""What a training loop imports: `open_run`. Loads no torch by itself."""

from slurm_resilience.training.opening import open_run
from slurm_resilience.training.run import Run
from slurm_resilience.training.stop_source import Stopped

__all__ = ["Run", "Stopped", "open_run"]
