"""Preemption as the tutorials teach it: handlers set a flag, the next step saves and exits; resume where that was.

A careful version: the ranks agree on the flag by an all-reduce, the file gets its name by a rename, the order of an
epoch's samples is kept. Started by torchrun, or by srun itself with one rank a task.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from benchmarks.survival.programs.training import Teller, make_loader, make_model, parse_options, train_step

CHECKPOINT = Path("checkpoint.pt")
asked_to_stop = False


def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
    global asked_to_stop  # noqa: PLW0603  # as the tutorials do it
    asked_to_stop = True


def anybody_asked() -> bool:
    flag = torch.tensor(int(asked_to_stop))
    dist.all_reduce(flag)
    return bool(flag)


def main() -> None:
    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGUSR1, ask_to_stop)
    options = parse_options()
    if "RANK" not in os.environ:  # srun python: one rank a task
        os.environ["RANK"] = os.environ["SLURM_PROCID"]
        os.environ["WORLD_SIZE"] = os.environ["SLURM_NTASKS"]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    teller = Teller(rank)
    torch.set_num_threads(1)

    bare_model = make_model()
    model = DistributedDataParallel(bare_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = make_loader(dist.get_world_size(), rank, options.workers)
    step = 0
    if CHECKPOINT.exists():
        kept = torch.load(CHECKPOINT)
        bare_model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
    teller.began(step)

    def save() -> None:
        if rank == 0:
            unnamed = CHECKPOINT.with_suffix(".tmp")
            kept = {"model": bare_model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(kept, unnamed)
            unnamed.rename(CHECKPOINT)
            teller.saved(step)
        dist.barrier()

    for epoch in range(step // len(loader), options.epochs):
        assert isinstance(loader.sampler, DistributedSampler)
        loader.sampler.set_epoch(epoch)
        done = step - epoch * len(loader)
        for number, batch in enumerate(loader):
            if number < done:
                continue
            train_step(model, optimizer, batch, options.step_seconds)
            step += 1
            teller.stepped(step)
            if anybody_asked():
                save()
                sys.exit(0)
            if step % options.save_every == 0:
                save()
    teller.finished(step, bare_model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
