"""Part "two ranks": replicas, as DDP has them, saved by two processes on one node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.checkpoint.rounds import Part
from benchmarks.free_port import free_port
from benchmarks.report import REPOSITORY

WORLD_SIZE = 2


def measure_ranks(gib: float, folder: Path, rounds: int) -> Part:
    """`gib` is the state of each rank, which is the same on both."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(WORLD_SIZE),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    program = [sys.executable, "-m", "benchmarks.checkpoint.rank", str(folder), str(gib), str(rounds)]
    ranks = [
        subprocess.Popen(program, env=environment | {"RANK": str(rank)}, stdout=subprocess.PIPE if rank == 0 else None)
        for rank in range(WORLD_SIZE)
    ]
    output, _ = ranks[0].communicate()
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        return Part(missing={"two ranks": "a rank failed"})
    return Part(**json.loads(output.splitlines()[-1]))
