"""Handwritten digits with DistributedDataParallel: scikit-learn's own data set, nothing to download.

    pip install scikit-learn   # only its data is read

    python examples/digits.py
    torchrun --nproc-per-node=2 examples/digits.py
    srun-resilient torchrun --nproc-per-node=2 examples/digits.py

Five lines make it survive preemption, time limits and crashes; they end in "# resilience". Interrupted anywhere and
started again, it ends with the same weights, bit for bit, as if nothing had happened.
"""

import argparse
import hashlib
import importlib.util
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from slurm_resilience.training import open_run  # resilience


def load_digits():
    """scikit-learn's file, read without importing scikit-learn: that would take longer than an epoch."""
    found = importlib.util.find_spec("sklearn")
    if found is None:
        raise SystemExit("the pictures come with scikit-learn, which isn't installed: pip install scikit-learn")
    (folder,) = found.submodule_search_locations
    table = np.loadtxt(Path(folder, "datasets", "data", "digits.csv.gz"), delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


class Digits(Dataset):
    """8×8 pictures, each shifted by up to one pixel: random numbers drawn in the DataLoader's workers."""

    def __init__(self, first, last, shift):
        pictures, labels = load_digits()
        self.pictures = torch.from_numpy(pictures[first:last]) / 16
        self.labels = torch.from_numpy(labels[first:last])
        self.shift = shift

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        picture = self.pictures[index]
        if self.shift:
            down, right = torch.randint(-1, 2, (2,)).tolist()
            picture = picture.roll((down, right), dims=(0, 1))
        return picture, self.labels[index]


def make_model():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 64, 10),
    )


@torch.no_grad()
def accuracy(model, device):
    test = Digits(1500, 1797, shift=False)
    model.eval()
    right = (model(test.pictures.to(device)).argmax(1) == test.labels.to(device)).float().mean().item()
    model.train()
    return right


def evaluate_for(seconds, model, device):
    """A long evaluation: again and again until the time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        accuracy(model, device)


def main():
    options = parse_options()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if world_size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    model = make_model().to(device)
    bare_model = model
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    data = Digits(0, 1500, shift=True)
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)  # shuffles anew in each of run.epochs
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers)

    with open_run(save_every_steps=options.save_every_steps, run_dir=options.run_dir) as run:  # resilience
        run.register(model=bare_model, optimizer=optimizer, scheduler=scheduler)  # resilience
        for epoch in run.epochs(options.epochs):  # resilience
            for pictures, labels in run.batches(loader):  # resilience
                loss = nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

                step = run.step + 1
                if rank == 0 and step % options.print_every == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                demonstrate(options, run, step, rank, bare_model, device)
            scheduler.step()
            if rank == 0:
                print(f"epoch {epoch} accuracy {accuracy(bare_model, device):.4f}", flush=True)

    if rank == 0:
        weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in bare_model.parameters())
        print(f"finished at step {run.step}, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
    if world_size > 1:
        dist.destroy_process_group()


def demonstrate(options, run, step, rank, model, device):
    """What happens in real trainings, on request: slow steps, a long evaluation on one rank, a crash."""
    if options.step_seconds:
        time.sleep(options.step_seconds)
    if step == options.evaluate_at and rank == options.evaluate_rank:
        print(f"rank {rank} evaluates for {options.evaluate_seconds} s", flush=True)
        evaluate_for(options.evaluate_seconds, model, device)
    if step == options.crash_at and rank == options.crash_rank and run.attempt <= options.crash_attempts:
        raise RuntimeError(f"rank {rank} crashes at step {step}, as asked")


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers per rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", help="outside of srun-resilient; default: runs/digits")
    parser.add_argument("--save-every-steps", type=int, help="besides the saves that come by time")
    parser.add_argument("--print-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="make every step last that much longer")
    parser.add_argument("--evaluate-at", type=int, metavar="STEP", help="one rank evaluates there, the others wait")
    parser.add_argument("--evaluate-seconds", type=float, default=20.0)
    parser.add_argument("--evaluate-rank", type=int, default=0)
    parser.add_argument("--crash-at", type=int, metavar="STEP")
    parser.add_argument("--crash-rank", type=int, default=0)
    parser.add_argument("--crash-attempts", type=int, default=1, help="crash in the first so many attempts only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
