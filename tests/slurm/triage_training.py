"""A training as users write them, with one fault on request: DDP over gloo, a DataLoader, and what all of them print.

    python -m torch.distributed.run --nproc-per-node=2 triage_training.py --fault=index-error --rank=3 --step=5

With --library it saves and resumes by slurm_resilience.training; without, it knows nothing of us. The fault happens in
the first life of the job only, or in that which FAULTY_LIFE names.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

WIDTH = 16
LIFE = os.environ.get("FAULTY_LIFE", "0")
"""The restart count of the life in which faults happen."""

log = logging.getLogger("train")


class Samples(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, count: int, bad: int | None, kill_at: int | None) -> None:
        self.inputs = torch.arange(count * WIDTH, dtype=torch.float32).reshape(count, WIDTH) / (count * WIDTH)
        self.bad = bad
        self.kill_at = kill_at

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.kill_at is not None and torch.utils.data.get_worker_info() is not None and index >= self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.bad:
            raise ValueError(f"sample {index} has a label that is not in the vocabulary: 'qux'")
        return self.inputs[index], self.inputs[index].sum().unsqueeze(0)


def make_model(width: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))


# What may happen, on one rank, before the step that --step names.


def index_error(options: argparse.Namespace) -> None:
    vocabulary = ["a", "b", "c"]
    log.debug("%s", vocabulary[options.step + 3])


def shape_mismatch(options: argparse.Namespace) -> None:
    dist.all_reduce(torch.ones(7 * WIDTH))


def sleep_long(options: argparse.Namespace) -> None:
    time.sleep(600)


def nan_loss(options: argparse.Namespace) -> None:
    loss = torch.tensor(float("nan"))
    assert torch.isfinite(loss), f"loss is {loss.item()} at step {options.step}"


def segfault(options: argparse.Namespace) -> None:
    ctypes.string_at(0)


def abort(options: argparse.Namespace) -> None:
    os.abort()


def exit_quietly(options: argparse.Namespace) -> None:
    os._exit(42)


def want_memory(options: argparse.Namespace) -> None:
    limit = 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    torch.empty(1 << 31, dtype=torch.float32).fill_(1)


def want_list(options: argparse.Namespace) -> None:
    limit = 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    cast("Any", bytearray)(8 << 30)


def eat_memory(options: argparse.Namespace) -> None:
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)


def fill_disk(options: argparse.Namespace) -> None:
    with Path(options.out).joinpath(f"samples-{os.environ.get('RANK', '0')}.bin").open("wb") as file:
        while True:
            file.write(b"\0" * (1 << 20))


def write_output(options: argparse.Namespace) -> None:
    Path(options.out, "samples.csv").write_text("step,loss\n")


def read_data(options: argparse.Namespace) -> None:
    Path(options.data).read_bytes()


def wrong_state(options: argparse.Namespace) -> None:
    make_model(WIDTH + 2).load_state_dict(make_model().state_dict())


def missing_state(options: argparse.Namespace) -> None:
    nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 8), nn.Linear(8, 1)).load_state_dict(
        make_model().state_dict()
    )


def torn_checkpoint(options: argparse.Namespace) -> None:
    path = Path(options.out, f"pretrained-{os.environ.get('RANK', '0')}.pt")
    torch.save(make_model().state_dict(), path)
    os.truncate(path, path.stat().st_size // 2)
    torch.load(path)


def old_library(options: argparse.Namespace) -> None:
    sys.path.insert(0, options.out)
    from fused_ops import fused_step  # type: ignore[import-not-found]

    fused_step()


def other_arguments(options: argparse.Namespace) -> None:
    raise TypeError("Trainer.__init__() got an unexpected keyword argument 'gradient_clip'")


def recurse(options: argparse.Namespace) -> None:
    recurse(options)


FAULTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "abort": abort,
    "eat-memory": eat_memory,
    "exit": exit_quietly,
    "fill-disk": fill_disk,
    "index-error": index_error,
    "missing-data": read_data,
    "missing-state": missing_state,
    "nan": nan_loss,
    "old-library": old_library,
    "other-arguments": other_arguments,
    "recursion": recurse,
    "segfault": segfault,
    "shape": shape_mismatch,
    "sleep": sleep_long,
    "torn-checkpoint": torn_checkpoint,
    "unwritable": write_output,
    "want-list": want_list,
    "want-memory": want_memory,
    "wrong-state": wrong_state,
}


# What trainings print that looks worse than it is.


def chat(style: str, rank: int, step: int, steps: int, loss: float) -> None:
    if style == "bars":
        if rank == 0:
            done = 20 * step // steps
            bar = "█" * done + " " * (20 - done)
            sys.stderr.write(f"\rEpoch 0: {100 * step // steps:3d}%|{bar}| {step}/{steps} [00:0{step % 10}<00:01]")
            sys.stderr.flush()
    elif style == "warnings":
        if step == 2:
            warnings.warn("lr_scheduler.step() called before optimizer.step(): error in the first value", stacklevel=2)
            log.warning("rank %d: Failed to import flash_attn, falling back to the slow kernel", rank)
        log.info("rank %d step %d loss %.4f error_rate 0.000 num_errors: 0 timeout=1800", rank, step, loss)
    elif style == "json":
        sys.stdout.write(f'{{"rank": {rank}, "step": {step}, "loss": {loss:.4f}, "killed": 0, "error": null}}\n')
        sys.stdout.flush()
    elif style == "caught":
        if rank == 1 and step == 3:
            try:
                Path("/nowhere/cache.bin").read_bytes()
            except OSError:
                log.exception("the cache can't be read; it is made anew")
        log.info("step %d loss %.4f", step, loss)
    elif rank == 0:
        sys.stdout.write(f"step {step} loss {loss:.4f}\n")
        sys.stdout.flush()


def main() -> None:
    options = parse_options()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    faulty = os.environ.get("SLURM_RESTART_COUNT", "0") == LIFE and options.rank in (rank, -1)
    if faulty and options.fault in FAULTS and options.step < 0:
        FAULTS[options.fault](options)  # before anybody has met
    if world > 1:
        dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    bare = make_model()
    model = DistributedDataParallel(bare) if world > 1 else bare
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = 4
    bad = options.step * batch * world if faulty and options.fault == "bad-sample" else None
    kill_at = options.step * batch if faulty and options.fault == "kill-worker" else None
    data = Samples(options.steps * batch * world, bad, kill_at)
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False)
    loader = DataLoader(data, batch_size=batch, sampler=sampler, num_workers=options.workers)

    def learn(batches: Iterator[Sequence[torch.Tensor]], first: int) -> None:
        for step, (inputs, targets) in enumerate(batches, first):
            if faulty and step == options.step and options.fault in FAULTS:
                FAULTS[options.fault](options)
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            chat(options.chat, rank, step + 1, options.steps, loss.item())
            time.sleep(options.step_seconds)

    if options.library:
        from slurm_resilience.training import open_run

        with open_run(save_every_steps=options.save_every, run_dir=options.run_dir) as run:
            run.register(model=bare, optimizer=optimizer)
            for _ in run.epochs(1):
                batches = iter(run.batches(loader))
                learn(batches, run.step)
    else:
        learn(iter(loader), 0)
    if rank == 0:
        sys.stdout.write("training is done\n")
    if world > 1 and not options.no_goodbye:
        dist.destroy_process_group()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=0, help="DataLoader workers per rank")
    parser.add_argument("--timeout", type=float, default=60.0, help="of the process group, seconds")
    parser.add_argument("--chat", choices=("plain", "bars", "warnings", "json", "caught"), default="plain")
    parser.add_argument("--library", action="store_true", help="save and resume by slurm_resilience")
    parser.add_argument("--save-every", type=int, default=4, metavar="STEPS")
    parser.add_argument("--run-dir")
    parser.add_argument("--out", default=".", help="a folder that some faults use")
    parser.add_argument("--data", default="/data/imagenet/train-00017.tar")
    parser.add_argument("--fault", choices=(*FAULTS, "bad-sample", "kill-worker"))
    parser.add_argument("--rank", type=int, default=-2, help="-1: all of them")
    parser.add_argument("--step", type=int, default=-1, help="-1: before they meet")
    parser.add_argument("--no-goodbye", action="store_true", help="leave without destroying the process group")
    return parser.parse_args()


if __name__ == "__main__":
    main()
