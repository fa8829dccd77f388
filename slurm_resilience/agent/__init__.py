"""The node agent: one process per node (or per Slurm task) inside the job step, leader of the task it runs.

It is the only process that listens to signals, and it owns the whole tree of processes that it starts.
"""
