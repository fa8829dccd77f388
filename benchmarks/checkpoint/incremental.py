"""Part "incremental": three saves of a run of which nine tenths are frozen, and of one of which nothing is."""

from __future__ import annotations

import functools
import time
from pathlib import Path

from benchmarks.checkpoint import ours
from benchmarks.checkpoint.machine import bytes_on_disk, empty
from benchmarks.checkpoint.rounds import Measured, Method, Part, measure
from benchmarks.checkpoint.state import State, bytes_in, flat_state
from slurm_resilience.checkpoint.format.plan import Planner
from slurm_resilience.checkpoint.hdf5_store import CHECKPOINTS, Hdf5Store
from slurm_resilience.training.loans import Loans
from slurm_resilience.training.ranks import AloneRank

FROZEN = "nine tenths frozen"
CHANGING = "everything changes"

_TRAINED = 0.1
_SAVES = 3


def measure_incremental(state: State, folder: Path, rounds: int) -> Part:
    methods: dict[str, Method] = {
        FROZEN: functools.partial(three_saves, state, folder, _TRAINED),
        CHANGING: functools.partial(three_saves, state, folder, 1.0),
    }
    return measure("incremental", methods, rounds)


def three_saves(state: State, folder: Path, trained: float) -> Measured:
    """By the number of the save: seconds for all of it and for finding out what is unchanged, and GB on the disk."""
    empty(folder)
    store = Hdf5Store(folder)
    loans = Loans(ranks=AloneRank(), store=store, planner=Planner(), folder=folder / CHECKPOINTS)
    found: Measured = {}
    before_bytes = 0
    for save in range(1, _SAVES + 1):
        checkpoint = f"step-{save:010}.a1"
        _train(state, trained)
        began_s = time.perf_counter()
        loan = loans.arrange(checkpoint, state, ours.FACTS)
        arranged_s = time.perf_counter()
        receipt = store.write_part(checkpoint, rank=0, state=state, attributes=ours.FACTS, borrowed=loan.borrowed)
        found[f"took_{save}_s"] = time.perf_counter() - began_s
        found[f"arrange_{save}_s"] = arranged_s - began_s
        loans.committed(checkpoint, receipt)
        now_bytes = bytes_on_disk(folder)
        found[f"disk_{save}_gb"] = (now_bytes - before_bytes) / 1e9
        before_bytes = now_bytes
    empty(folder)
    return found


def _train(state: State, share: float) -> None:
    """Change so much of the state, counted in bytes, beginning with its last tensors."""
    left_bytes = share * bytes_in(state)
    for tensor in reversed(flat_state(state).values()):
        if left_bytes <= 0:
            return
        tensor.view(-1)[0].neg_()
        left_bytes -= tensor.nbytes
