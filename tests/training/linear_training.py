"""A small training for the tests in this folder: DDP over gloo where there are two ranks, workers, random numbers.

Says on stdout what the tests want to know; its last line is a digest of the weights.
"""

import argparse
import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from slurm_resilience.checkpoint import hdf5_store
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.training import open_run
from slurm_resilience.training.savers import SnapshotUse


def say(text: str) -> None:
    """One write: print would write the line's end by itself, behind what another rank says to the same file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.randn(8) + random.random() + float(np.random.rand())  # noqa: NPY002
        return noise + index / 96, torch.tensor([index / 96])


class FullDisk(Hdf5Store):
    """A store whose first writes on rank 1 meet a full disk."""

    failures = 0

    def write_part(
        self,
        checkpoint: str,
        *,
        rank: int,
        state: Mapping[str, Any],
        attributes: Mapping[str, Any],
        borrowed: Mapping[str, Borrowed] | None = None,
    ) -> PartReceipt:
        if rank == 1 and FullDisk.failures > 0:
            FullDisk.failures -= 1
            raise CheckpointUnavailable(f"{checkpoint}: no space left on device")
        return super().write_part(checkpoint, rank=rank, state=state, attributes=attributes, borrowed=borrowed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--save-every-steps", type=int)
    parser.add_argument("--run-dir")
    parser.add_argument("--kill-rank-at", type=int, nargs=2, default=(-1, -1), metavar=("RANK", "STEP"))
    parser.add_argument("--raise-rank-at", type=int, nargs=2, default=(-1, -1), metavar=("RANK", "STEP"))
    parser.add_argument("--evaluate-rank-at", type=int, nargs=2, default=(-1, -1), metavar=("RANK", "STEP"))
    parser.add_argument("--evaluate-seconds", type=float, default=3.0)
    parser.add_argument("--hold-at", nargs=2, default=("-1", ""), metavar=("STEP", "FILE"), help="until there is FILE")
    parser.add_argument("--failing-saves", type=int, default=0)
    parser.add_argument("--extra", action="store_true", help="register one object more")
    options = parser.parse_args()

    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1:
        dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    trained = DistributedDataParallel(model) if world_size > 1 else model
    torch.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    data = Noisy()
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=options.workers)

    if options.failing_saves:
        FullDisk.failures = options.failing_saves
        hdf5_store.Hdf5Store = FullDisk  # type: ignore[misc]
    snapshot: SnapshotUse = "never" if options.failing_saves else "always"  # the writer process has a disk of its own
    with open_run(save_every_steps=options.save_every_steps, run_dir=options.run_dir, snapshot=snapshot) as run:
        run.register(model=model, optimizer=optimizer, scheduler=scheduler)
        if options.extra:
            run.register(extra=nn.Linear(1, 1))
        run.resume()
        say(f"rank {rank} begins at {run.step} from {run.resumed_from}")
        for _epoch in run.epochs(options.epochs):
            for inputs, wanted in run.batches(loader):
                loss = nn.functional.mse_loss(trained(inputs), wanted)
                loss = loss * (1 + 0.01 * random.random() + 0.01 * float(np.random.rand()))  # noqa: NPY002
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                time.sleep(options.step_seconds)
                step = run.step + 1
                say(f"rank {rank} step {step}")
                while step == int(options.hold_at[0]) and not Path(options.hold_at[1]).exists():
                    time.sleep(0.01)
                if [rank, step] == list(options.kill_rank_at) and run.attempt == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if [rank, step] == list(options.raise_rank_at) and run.attempt == 1:
                    raise ValueError("the training itself has failed")
                if [rank, step] == list(options.evaluate_rank_at):
                    say(f"rank {rank} evaluates")
                    model.eval()  # an evaluation with dropout would use up random numbers, a different number each time
                    until = time.monotonic() + options.evaluate_seconds
                    while time.monotonic() < until:
                        with torch.no_grad():
                            model(inputs)
                    model.train()
            scheduler.step()
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    sys.stdout.write(f"rank {rank} weights {hashlib.sha256(weights).hexdigest()[:16]} {scheduler.last_epoch}\n")


if __name__ == "__main__":
    main()
