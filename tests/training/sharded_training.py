"""A small training in any layout, for the tests of what it comes back as: plain, DDP, FSDP2, tensor parallel.

Says on stdout which samples it takes, and a digest of all weights and optimizer state, whole, after every step.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from slurm_resilience.checkpoint.snapshot.batches import Batch
from slurm_resilience.checkpoint.snapshot.copying import Later
from slurm_resilience.training import open_run

SAMPLES = 96
FEATURES = 8
SLOW_COPY_S = 0.02


def say(text: str) -> None:
    """One write: print would write the line's end by itself, behind what another rank says to the same file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Numbered(Dataset[tuple[int, torch.Tensor]]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.arange(FEATURES).add(index).sin()


class Network(nn.Module):
    """`out` has 3 rows, which neither 2 nor 4 ranks can share evenly; `base` may be frozen."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(FEATURES, width)
        self.base = nn.Linear(width, width, bias=False)
        self.down = nn.Linear(width, width)
        self.out = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(torch.tanh(self.down(torch.tanh(self.base(torch.tanh(self.up(x)))))))
        return made


def laid_out(network: Network, layout: str) -> nn.Module:
    """What to call; `network` itself is changed for some layouts, and is what gets registered."""
    world_size = dist.get_world_size() if dist.is_initialized() else 1
    if layout == "ddp":
        return DistributedDataParallel(network)
    if layout == "fsdp":
        mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("dp",))
        for layer in (network.up, network.base, network.down, network.out):
            fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)
    if layout == "tp":
        mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("tp",))
        parallelize_module(network, mesh, {"up": ColwiseParallel(), "base": RowwiseParallel()})
    return network


def whole(value: Any) -> Any:
    """With every DTensor whole. All ranks."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, (list, tuple)) else value


def digest_of(value: Any) -> str:
    """Of whole tensors, bit for bit, and of the plain values around them."""
    digest = hashlib.sha256()
    for each in _leaves(value):
        if isinstance(each, torch.Tensor):
            own = each.detach().clone(memory_format=torch.contiguous_format)  # numpy would hold on to its storage
            digest.update(own.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(each).encode())
    return digest.hexdigest()[:16]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def copy_slowly() -> None:
    """So that a copy that isn't waited for is one too late. Says which were made beside the training."""
    copy, run = Batch.copy, Later._run

    def slowly(self: Batch) -> None:
        time.sleep(SLOW_COPY_S)
        copy(self)

    def beside(self: Later) -> None:
        run(self)
        if threading.current_thread() is not threading.main_thread():
            say("copied beside the training")

    Batch.copy = slowly  # type: ignore[method-assign]  # nothing else makes it late enough
    Later._run = beside  # type: ignore[method-assign]


def spoil(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What no hook of an optimizer sees: in place, through `.data`, resized, and gone."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.data.mul_(-3.0)
            parameter.add_(1.0)
        for state in optimizer.state.values():
            state["exp_avg"].resize_(0)
            state["exp_avg_sq"].untyped_storage().resize_(0)
            state["step"].fill_(77)
        optimizer.state.clear()


def steps(run: Any, options: argparse.Namespace, loader: DataLoader[Any], rank: int) -> Iterator[torch.Tensor]:
    """The inputs, one step each."""
    if options.steps:
        for step in run.steps(options.steps):
            say(f"rank {rank} counts {step}")
            yield torch.arange(FEATURES).add(step + rank).sin()[None]
        return
    for epoch in run.epochs(options.epochs):
        for numbers, inputs in run.batches(loader):
            say(f"rank {rank} epoch {epoch} takes {' '.join(str(int(number)) for number in numbers)}")
            yield inputs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=("plain", "ddp", "fsdp", "tp"), default="ddp")
    parser.add_argument("--optimizer", choices=("loop", "foreach", "fused"), default="loop")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="without data: so many steps")
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--die-at", type=int, default=-1, metavar="STEP", help="all ranks, behind this step")
    parser.add_argument("--keep-last", type=int, default=100)
    parser.add_argument("--save-every-steps", type=int)
    parser.add_argument("--frozen", action="store_true", help="all but the first and the last layer")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--spoil", action="store_true", help="as soon as a save has begun")
    parser.add_argument("--diverge-rank-at", type=int, nargs=2, default=(-1, -1), metavar=("RANK", "STEP"))
    options = parser.parse_args()

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if world_size > 1:
        dist.init_process_group("gloo")
    if options.overlap or options.spoil:
        copy_slowly()
    torch.manual_seed(0)
    network = Network(options.width)
    if options.frozen:
        network.base.requires_grad_(False)
        network.down.requires_grad_(False)
    trained = laid_out(network, options.layout)
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        learning, lr=1e-2, foreach=options.optimizer == "foreach", fused=options.optimizer == "fused"
    )
    torch.manual_seed(rank)
    data = Numbered()
    replicas, replica = (1, 0) if options.layout == "tp" else (world_size, rank)
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=replicas, rank=replica, seed=3)
    loader = DataLoader(data, batch_size=options.batch, sampler=sampler, num_workers=options.workers)

    def digest() -> str:
        return digest_of(whole({"model": network.state_dict(), "optimizer": optimizer.state_dict()}))

    with open_run(
        save_every_minutes=None,
        save_every_steps=options.save_every_steps,
        keep_last=options.keep_last,
        snapshot="always",
        overlap_snapshot=options.overlap,
    ) as run:
        run.register(model=network, optimizer=optimizer)
        run.resume()
        say(f"rank {rank} begins at {run.step} as {digest()}")
        for inputs in steps(run, options, loader, rank):
            if options.spoil and options.save_every_steps and run.step and run.step % options.save_every_steps == 0:
                spoil(network, optimizer)
            noise = torch.rand(1)
            trained(inputs).sub(noise).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            step = run.step + 1
            if [rank, step] == list(options.diverge_rank_at):
                with torch.no_grad():
                    network.down.weight[0, 0] += 1
            say(f"rank {rank} step {step} draws {float(noise):.6f} is {digest()}")
            if step == options.die_at:
                os._exit(9)
            time.sleep(options.step_seconds)
    say(f"rank {rank} ends")


if __name__ == "__main__":
    main()
