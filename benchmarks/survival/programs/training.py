"""What the programs of this benchmark have in common: model, data, steps, and what they tell of themselves."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from benchmarks.event_log import EventLog

STEPS_IN_EPOCH = 50
BATCH = 16


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step-seconds", type=float, default=0.2)
    parser.add_argument("--save-every", type=int, default=30)
    return parser.parse_args()


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))


def make_loader(world_size: int, rank: int, workers: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    numbers = torch.Generator().manual_seed(1)
    inputs = torch.rand(STEPS_IN_EPOCH * BATCH * world_size, 32, generator=numbers)
    data = TensorDataset(inputs, inputs[:, :8].sin())
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data, world_size, rank)
    return DataLoader(data, batch_size=BATCH, sampler=sampler, num_workers=workers)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, ...], step_seconds: float
) -> None:
    inputs, wanted = batch
    loss: Any = nn.functional.mse_loss(model(inputs), wanted)  # torch types backward() in some of its versions only
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # Only the first life of the job has to last: what comes after a restart may hurry.
    time.sleep(step_seconds if os.environ.get("SLURM_RESTART_COUNT", "0") == "0" else 0.02)


class Teller:
    """Rank 0 tells; the others are silent."""

    def __init__(self, rank: int) -> None:
        self._log = EventLog(Path(os.environ["BENCH_EVENTS"])) if rank == 0 else None

    def began(self, step: int) -> None:
        self._tell("began", step)

    def stepped(self, step: int) -> None:
        self._tell("stepped", step)

    def saved(self, step: int) -> None:
        self._tell("saved", step)

    def finished(self, step: int, model: nn.Module) -> None:
        weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
        self._tell("finished", step, weights=hashlib.sha256(weights).hexdigest())

    def _tell(self, what: str, step: int, **values: str) -> None:
        if self._log is not None:
            self._log.tell(what, step=step, **values)
