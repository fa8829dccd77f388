"""DDP's buckets around parameters of unusual kinds, on one rank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from slurm_resilience.training.gradient_buckets import GradientBuckets


@pytest.fixture
def world_of_one(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class WithMore(nn.Module):
    def __init__(self, more: torch.Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.more = nn.Parameter(more)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.linear(batch).sum() + self.more.abs().sum()
        return total


@pytest.mark.usefixtures("world_of_one")
@pytest.mark.parametrize("more", [torch.ones(3), torch.zeros(0), torch.ones(3, dtype=torch.complex64)])
def test_parameters_without_elements_and_complex_ones_are_laid_out_again_too(more: torch.Tensor) -> None:
    before = WithMore(more)
    parallel = DistributedDataParallel(before, bucket_cap_mb=1e-5)
    for _ in range(3):
        parallel(torch.ones(2, 4)).backward()
    orders = GradientBuckets({"model": before}).capture()
    assert sorted(orders["model"]) == [0, 1, 2]

    after = WithMore(more)
    parallel = DistributedDataParallel(after, bucket_cap_mb=1e-5)
    assert GradientBuckets({"model": after}).restore(orders) == []
    assert all(parameter.grad is None for parameter in after.parameters())
    parallel(torch.ones(2, 4)).backward()
