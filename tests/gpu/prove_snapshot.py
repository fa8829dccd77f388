"""Prove snapshots on a GPU, and measure them: `python -m tests.gpu.prove_snapshot [--gib 8] [--folder /tmp]`.

Takes about two minutes. Exit code 0: every check held.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from tests.gpu.snapshot_checks import CHECKS, all_of, tensors_of, written

ROUNDS = 5


def _proved(folder: Path) -> bool:
    good = True
    for check in CHECKS:
        began_s = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(dir=folder) as root:
                check(Path(root))
        except Exception:  # noqa: BLE001 the others are of interest too
            traceback.print_exc()
            good = False
            print(f"FAILED {check.__name__}", flush=True)
        else:
            print(f"held   {check.__name__} ({time.monotonic() - began_s:.1f} s)", flush=True)
    return good


class _Training:
    """Weights with two moments each, and steps that keep the GPU busy for a while before they change them."""

    def __init__(self, gib: float) -> None:
        count = max(1, int(gib * 2**30 / 3 / (4096 * 4096 * 4)))
        self.weights = [torch.randn(4096, 4096, device="cuda") for _ in range(count)]
        self.moments = [[torch.zeros_like(weight) for weight in self.weights] for _ in range(2)]
        self.batch = torch.randn(8192, 4096, device="cuda")
        self.state = {"model": self.weights, "first": self.moments[0], "second": self.moments[1]}

    def step(self, before_update: Callable[[], None] = lambda: None) -> None:
        activation = self.batch
        for weight in self.weights:
            activation = torch.tanh(activation @ weight * 0.01)
        before_update()
        for group in (*self.moments, self.weights):
            torch._foreach_add_(group, 0.001)

    def timed_s(self, snapshot: Callable[[], Callable[[], None]] | None, steps: int = 4) -> float:
        """`steps` steps, the GPU's work included; a snapshot is taken before the first."""
        torch.cuda.synchronize()
        began_s = time.monotonic()
        before_update = snapshot() if snapshot is not None else lambda: None
        for _ in range(steps):
            self.step(before_update)
            before_update = lambda: None  # noqa: E731 only the first
        torch.cuda.synchronize()
        return time.monotonic() - began_s


def _measured(gib: float, folder: Path) -> None:
    training = _Training(gib)
    size_bytes = sum(tensor.nbytes for tensor in tensors_of(training.state))
    snapshot = Snapshot(rank=0)
    identities = all_of(training.state)
    began_s = time.monotonic()
    snapshot.take("step-0.a1", training.state, {})
    first_s = time.monotonic() - began_s
    print(f"{size_bytes / 2**30:.1f} GiB; the first snapshot, which allocates and pins: {first_s:.2f} s")

    def whole() -> Callable[[], None]:
        snapshot.take("step-1.a1", training.state, {})
        return lambda: None

    def overlapped() -> Callable[[], None]:
        return snapshot.take("step-1.a1", training.state, {}, overlap=True, overlapped=identities).wait

    def to_cpu() -> Callable[[], None]:
        for tensor in tensors_of(training.state):
            tensor.cpu()
        return lambda: None

    kinds = {"no snapshot": None, "overlapped": overlapped, "at once": whole, "tensor.cpu()": to_cpu}
    training.timed_s(None)
    took: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, kind in kinds.items():
            took[name].append(training.timed_s(kind))
    base_s = statistics.median(took["no snapshot"])
    for name, each_s in took.items():
        median_s = statistics.median(each_s)
        rounds = " ".join(f"{one_s:.3f}" for one_s in each_s)
        print(f"{name:14} 4 steps {median_s:.3f} s, {median_s - base_s:+.3f} s (all: {rounds})")

    host_s, copied_s = [], []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began_s = time.monotonic()
        taken = snapshot.take("step-1.a1", training.state, {}, overlap=True, overlapped=identities)
        host_s.append(time.monotonic() - began_s)
        taken.settle()
        copied_s.append(time.monotonic() - began_s)
    print(f"take() with overlap holds the host up for {statistics.median(host_s) * 1000:.1f} ms")
    speed = size_bytes / statistics.median(copied_s) / 1e9
    print(f"copied after {statistics.median(copied_s):.3f} s: {speed:.1f} GB/s")
    with tempfile.TemporaryDirectory(dir=folder) as root:
        began_s = time.monotonic()
        written(snapshot.take("step-2.a1", training.state, {}, overlap=True, overlapped=identities), Path(root))
        print(f"durable, written in this process, after {time.monotonic() - began_s:.2f} s")
    snapshot.close()

    tiny = {str(row): torch.ones(10, device="cuda") for row in range(5000)}
    snapshot = Snapshot(rank=0)
    snapshot.take("step-0.a1", tiny, {})
    began_s = time.monotonic()
    snapshot.take("step-1.a1", tiny, {})
    print(f"tiny tensors: {(time.monotonic() - began_s) / len(tiny) * 1e6:.1f} µs each")
    snapshot.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=8.0, help="size of the state that is measured")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU that this torch can use")
        return 1
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    good = _proved(asked.folder)
    _measured(asked.gib, asked.folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
