"""The SPANK plugin seen from outside: what is installed, for which Slurm, and whether it is loaded."""
