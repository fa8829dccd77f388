"""A mini Slurm of one's own: slurmctld, slurmds and munged on this machine, in a folder, for a test or a look."""
