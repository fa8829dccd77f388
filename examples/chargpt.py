"""A small GPT that learns to write Python, character by character, from the standard library's sources.

    python examples/chargpt.py --steps 200
    torchrun --nproc-per-node=2 examples/chargpt.py
    srun-resilient torchrun --nproc-per-node=2 examples/chargpt.py

The lines that make it survive end in "# resilience". Pieces of text are picked at random in the DataLoader's workers,
and the model has dropout: interrupted anywhere and started again, it still ends with the same weights, bit for bit.
"""

import argparse
import hashlib
import os
import sysconfig
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from slurm_resilience.training import open_run  # resilience

VOCABULARY = 128  # ASCII; whatever else occurs becomes a question mark


def standard_library(most_bytes):
    """As much of the standard library's source as fits, always the same for one Python."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_text(encoding="utf-8", errors="replace").encode("ascii", errors="replace")
        if len(text) >= most_bytes:
            break
    return torch.frombuffer(text[:most_bytes], dtype=torch.uint8)


class Pieces(Dataset):
    """Pieces of the text from random places. A piece's number says only how many there are in an epoch."""

    def __init__(self, text, length, count):
        self.text = text
        self.length = length
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, _number):
        first = torch.randint(0, len(self.text) - self.length - 1, ()).item()
        piece = self.text[first : first + self.length + 1].long()
        return piece[:-1], piece[1:]


class CharGPT(nn.Module):
    def __init__(self, length, width, layers, heads):
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, characters):
        length = characters.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=characters.device)
        inside = self.characters(characters) + self.places(torch.arange(length, device=characters.device))
        return self.out(self.layers(inside, mask=mask, is_causal=True))


def loss_of(model, batch, device):
    before, after = (part.to(device) for part in batch)
    return nn.functional.cross_entropy(model(before).flatten(0, 1), after.flatten())


@torch.no_grad()
def evaluate_for(seconds, model, text, length, device):
    """The loss on the text's end, again and again until the time is over."""
    model.eval()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pieces = text[-8 * (length + 1) :].view(8, length + 1).long()
        loss_of(model, (pieces[:, :-1], pieces[:, 1:]), device)
    model.train()


def main():
    options = parse_options()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what torch wants for the same bits every time
    if world_size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)

    text = standard_library(options.text_bytes)
    model = CharGPT(options.length, options.width, options.layers, options.heads).to(device)
    bare_model = model
    if world_size > 1:
        model = DistributedDataParallel(model)
    torch.manual_seed(options.seed + 1000 * rank)  # from here on ranks draw different numbers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    steps_in_epoch = options.steps if options.epochs is None else -(-options.steps // options.epochs)
    pieces = Pieces(text, options.length, options.batch_size * steps_in_epoch)
    loader = DataLoader(pieces, batch_size=options.batch_size, num_workers=options.workers)

    with open_run(save_every_steps=options.save_every_steps, run_dir=options.run_dir) as run:  # resilience
        run.register(model=bare_model, optimizer=optimizer, scheduler=scheduler)  # resilience
        for _epoch in run.epochs(options.epochs or 1):  # resilience
            for batch in run.batches(loader):  # resilience
                loss = loss_of(model, batch, device)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()

                step = run.step + 1
                if rank == 0 and step % options.print_every == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                if options.step_seconds:
                    time.sleep(options.step_seconds)
                if step == options.evaluate_at and rank == options.evaluate_rank:
                    print(f"rank {rank} evaluates for {options.evaluate_seconds} s", flush=True)
                    evaluate_for(options.evaluate_seconds, bare_model, text, options.length, device)
                if step == options.crash_at and rank == options.crash_rank and run.attempt <= options.crash_attempts:
                    raise RuntimeError(f"rank {rank} crashes at step {step}, as asked")

    if rank == 0:
        weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in bare_model.parameters())
        print(f"finished at step {run.step}, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
    if world_size > 1:
        dist.destroy_process_group()


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000, help="altogether")
    parser.add_argument("--epochs", type=int, help="spread the steps over so many epochs; default: one")
    parser.add_argument("--batch-size", type=int, default=16, help="per rank")
    parser.add_argument("--length", type=int, default=64, help="characters in a piece")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--text-bytes", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers per rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", help="outside of srun-resilient; default: runs/chargpt")
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
