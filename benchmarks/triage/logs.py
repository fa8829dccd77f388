"""Logs for the benchmark: of a healthy training, and of the worst that a reader can be given."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

_WORDS = (
    "the a of model data layer attention head token batch gradient learning rate epoch loss scale norm weight bias "
    "hidden output input query key value mask cache memory device node rank world size group comm bucket reduce gather "
    "scatter broadcast ring tree channel buffer stream event kernel launch graph compile trace export import load save "
    "shard index file path name error rate warning failed attempts retry time step count total average connection"
).split()
_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train/data.py", line {}, in load\n'
    "    return self.read(path)\n"
    "           ^^^^^^^^^^^^^^^\n"
    '  File "/home/user/train/storage.py", line 7, in read\n'
    "    raise Retry(path)\n"
    "storage.Retry: 'shard {}'"
)
Line = Callable[[random.Random, int, int, str], str]


def _healthy(lot: random.Random, rank: int, step: int, when: str) -> str:
    chance = lot.random()
    if chance < 0.7:
        return (
            f"[{when}] [INFO] [rank {rank}] iteration {step}/1000000 | consumed samples: {step * 512} | elapsed time "
            f"per iteration (ms): {900 * lot.random():.1f} | learning rate: {lot.random() / 1e4:.6E} | lm loss: "
            f"{3 * lot.random():.6E} | grad norm: {lot.random():.3f} | number of errors: 0"
        )
    if chance < 0.9:
        channel, peer = lot.randrange(32), lot.randrange(256)
        return (
            f"n{rank // 8}:{1000 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO Channel {channel:02d}/0 : "
            f"{rank}[{rank % 8}] -> {peer}[{peer % 8}] via P2P/CUMEM"
        )
    return f"{when} DEBUG data worker {lot.randrange(8)}: batch {step} took {lot.random():.4f} s"


def _never_the_same(lot: random.Random, _: int, step: int, when: str) -> str:
    return f"{when} sample {step}: {' '.join(lot.choices(_WORDS, k=14))}"


def _digests(lot: random.Random, _: int, step: int, when: str) -> str:
    return f"{when} saved {step} {lot.getrandbits(256):064x}"


def _almost(lot: random.Random, _: int, __: int, when: str) -> str:
    return (
        f"{when} WARNING request ended DUE TO load ({lot.random():.3f}), exitcode none, Connection closed by policy, "
        f"FileExistsError: [Errno 17] File exists"
    )


def _known(lot: random.Random, rank: int, step: int, _: str) -> str:
    peer = f"[10.0.{lot.randrange(256)}.{lot.randrange(256)}]:{lot.randrange(65536)}"
    return f"[rank{rank}]: RuntimeError: [pair.cc:553] Connection closed by peer {peer} at {step}"


def _known_by_number(lot: random.Random, _: int, step: int, when: str) -> str:
    return f"{when} ERROR OSError: [Errno 104] Connection was lost ({lot.random():.3f}), try {step}"


def _tracebacks(lot: random.Random, _: int, step: int, when: str) -> str:
    return f"{when} WARNING retrying\n{_TRACEBACK.format(lot.randrange(1000), step)}"


def _bar(lot: random.Random, _: int, step: int, __: str) -> str:
    done = step % 100
    clock = f"{step // 60 % 60:02d}:{step % 60:02d}"
    return (
        f"\rEpoch {step // 100}: {done:3d}%|{'█' * (done // 5):<20}| {done}/100 [{clock}, {10 * lot.random():.2f}it/s]"
    )


KINDS: dict[str, tuple[Line, str]] = {
    "healthy": (_healthy, "steps, NCCL's INFO, a data loader's"),
    "unlike": (_never_the_same, "no line like another but for its words"),
    "digests": (_digests, "a digest in each line"),
    "almost": (_almost, "each line has five of the texts that known lines have, and none is known"),
    "known": (_known, "each line is known"),
    "numbers": (_known_by_number, "each line is known by a number in it"),
    "tracebacks": (_tracebacks, "nothing but tracebacks that the program lives on after"),
    "bar": (_bar, "one line: a progress bar"),
}
_LINES = 2000


def write_logs(folder: Path, kind: str, files: int, file_bytes: int) -> int:
    """`rank_0000.log` and so on; the bytes in them all."""
    folder.mkdir(parents=True)
    line, _ = KINDS[kind]
    written = 0
    for rank in range(files):
        with (folder / f"rank_{rank:04d}.log").open("wb") as file:
            for block in _blocks(line, rank, "" if kind == "bar" else "\n"):
                written += file.write(block)
                if file.tell() >= file_bytes:
                    break
    return written


def _blocks(line: Line, rank: int, end: str) -> Iterator[bytes]:
    lot = random.Random(rank)
    step = 0
    while True:
        lines = []
        for _ in range(_LINES):
            step += 1
            second = step // 2
            clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d},{lot.randrange(1000):03d}"
            lines.append(line(lot, rank, step, f"2026-11-29 {clock}") + end)
        yield "".join(lines).encode()
