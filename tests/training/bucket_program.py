"""Four ranks train, one set of processes after another: run by test_gradient_buckets.py under torchrun."""

from __future__ import annotations

import contextlib
import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from slurm_resilience.training.gradient_buckets import GradientBuckets


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 500), nn.ReLU(), nn.Linear(500, 10))


def train(
    parallel: DistributedDataParallel, optimizer: torch.optim.Optimizer, first: int, last: int, first_exchange: int
) -> None:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        pictures = torch.randn(32, 64, generator=generator)
        labels = torch.randint(0, 10, (32,), generator=generator)
        alone = step < first_exchange
        with parallel.no_sync() if alone else contextlib.nullcontext():
            nn.functional.cross_entropy(parallel(pictures), labels).backward()
        if not alone:
            optimizer.step()
            optimizer.zero_grad()


def main(stop_after: int, first_exchange: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bare = model()
    parallel, optimizer = DistributedDataParallel(bare), torch.optim.AdamW(bare.parameters(), lr=1e-2)
    buckets = GradientBuckets({"model": bare})
    train(parallel, optimizer, 0, stop_after, first_exchange)
    orders = buckets.capture()
    saved = copy.deepcopy((bare.state_dict(), optimizer.state_dict()))
    train(parallel, optimizer, stop_after, 20, first_exchange)
    undisturbed = [parameter.detach().clone() for parameter in bare.parameters()]
    del parallel, buckets

    bare = model()
    bare.load_state_dict(saved[0])
    parallel, optimizer = DistributedDataParallel(bare), torch.optim.AdamW(bare.parameters(), lr=1e-2)
    optimizer.load_state_dict(saved[1])
    buckets = GradientBuckets({"model": bare})
    left_out = buckets.restore(orders)
    gradients = [parameter.grad for parameter in bare.parameters()]
    train(parallel, optimizer, stop_after, 20, first_exchange)
    same = all(torch.equal(a, b) for a, b in zip(undisturbed, bare.parameters(), strict=True))
    facts = (same, left_out, sorted(orders) == ["model"], gradients == [None] * 6, buckets.capture() == orders)
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"{facts}\n")
    os._exit(0 if facts == (True, [], True, True, True) else 1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
