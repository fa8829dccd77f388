"""PyTorch training under Slurm that survives whatever happens to it."""

__version__ = "0.1.0"
