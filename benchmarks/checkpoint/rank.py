"""One of the ranks of part "two ranks". Arguments: FOLDER GIB ROUNDS. Rank 0 prints what was measured, as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.checkpoint import ours, peers
from benchmarks.checkpoint.machine import bytes_on_disk, empty, seconds, sync_all
from benchmarks.checkpoint.ready_memory import ReadyMemory
from benchmarks.checkpoint.rounds import Measured, Method, measure
from benchmarks.checkpoint.state import State, bytes_in, training_state
from slurm_resilience.checkpoint.format.plan import Planner
from slurm_resilience.checkpoint.hdf5_store import CHECKPOINTS, Hdf5Store
from slurm_resilience.training.loans import Loans
from slurm_resilience.training.ranks import GlooRanks

OURS = "ours, each replica once"
OURS_FIRST = "ours, first save of a run"
TORCH = "torch.save on rank 0"
TORCH_EACH = "torch.save on each rank"
DCP = "DCP, 2 threads a rank"


class OurRank:
    def __init__(self, root: Path, state: State) -> None:
        self._state = state
        self._folder = root / CHECKPOINTS
        self._store = Hdf5Store(root)
        self._ranks = GlooRanks()
        self._loans = self._new_loans()

    def save(self, *, first: bool) -> None:
        """`first`: nothing has been agreed on yet, so everything is compared with everybody."""
        loans = self._new_loans() if first else self._loans
        loans.write_part(ours.CHECKPOINT, self._state, ours.FACTS)

    def _new_loans(self) -> Loans:
        # The state stays the same here from save to save, which must not be made use of.
        return Loans(ranks=self._ranks, store=self._store, planner=Planner(), folder=self._folder, incremental=False)


def methods(state: State, folder: Path, ready: ReadyMemory) -> dict[str, Method]:
    rank = dist.get_rank()
    our_rank = OurRank(folder, state)

    def on_rank_zero() -> None:
        if rank == 0:
            peers.save_torch(state, folder)

    def on_each() -> None:
        own = folder / f"rank-{rank}"
        own.mkdir()
        torch.save(state, own / "state.pt")
        sync_all(own)

    saves: dict[str, Callable[[], None]] = {
        OURS: lambda: our_rank.save(first=False),
        OURS_FIRST: lambda: our_rank.save(first=True),
        TORCH: on_rank_zero,
        TORCH_EACH: on_each,
        DCP: lambda: peers.save_dcp(state, folder, threads=2, alone=False),
    }
    size_bytes = bytes_in(state)
    return {name: functools.partial(_durable_on_all, save, folder, size_bytes, ready) for name, save in saves.items()}


def _durable_on_all(save: Callable[[], None], folder: Path, size_bytes: int, ready: ReadyMemory) -> Measured:
    if dist.get_rank() == 0:
        empty(folder)
    dist.barrier()
    with ready.lent():
        dist.barrier()

        def everywhere() -> None:
            save()
            dist.barrier()

        took_s = seconds(everywhere)
        found = {
            "took_s": took_s,
            "gb_per_s": size_bytes / took_s / 1e9,
            "disk_gb": bytes_on_disk(folder) / 1e9,
        }
    dist.barrier()
    if dist.get_rank() == 0:
        empty(folder)
    return found


def main(folder: Path, gib: float, rounds: int) -> None:
    warnings.simplefilter("ignore")  # other libraries'
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    # A rank that fails has to end: the other waits for it.
    state = training_state(gib)
    with ReadyMemory(2 * bytes_in(state)) as ready:
        part = measure("two ranks", methods(state, folder, ready), rounds, tolerant=False)
    if dist.get_rank() == 0:
        print(json.dumps(dataclasses.asdict(part)), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
