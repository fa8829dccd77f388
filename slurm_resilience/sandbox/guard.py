"""Ends a cluster when the process that wanted it has died: `python -m slurm_resilience.sandbox.guard FOLDER PID TICKS`.

A process of its own, because SIGKILL leaves no time for anything in the one that dies.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.process_identity import boot_id
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.process import Process


def wait_for_end_of(owner: Process) -> None:
    try:
        descriptor = os.pidfd_open(owner.pid)
    except OSError:  # gone already, or a kernel before 5.3
        while owner.alive():
            time.sleep(0.5)
        return
    if owner.alive():  # else the descriptor is of another process with the same pid
        select.select([descriptor], [], [])


def main(folder: str, pid: str, start_ticks: str) -> None:
    wait_for_end_of(Process(int(pid), int(start_ticks), boot_id()))
    try:
        cluster = Cluster.attach(Path(folder))
    except ConfigurationError:
        return  # it was taken down in order, and its folder with it
    cluster.down()


if __name__ == "__main__":
    main(*sys.argv[1:])
