"""What a snapshot promises of tensors on a GPU: each check takes a folder, and asserts.

Copies are held up by making the GPU sleep before them, so that what would be a race is one every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.disk.image_writer import write_image
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.format.part_format import HeadChecksum
from slurm_resilience.checkpoint.format.tensor import identity
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.batches import ChangedMeanwhile
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.snapshot.watermark import SnapshotSpoilt
from slurm_resilience.checkpoint.store import PartReceipt

HELD_UP_CYCLES = 2_000_000_000
"""About a second."""


def odd_state() -> dict[str, Any]:
    """Every kind of tensor that takes a path of its own."""
    torch.manual_seed(3)
    large = torch.nn.Parameter(torch.randn(3000, 4001, device="cuda"))
    complexes = torch.randn(50, 60, dtype=torch.complex64, device="cuda")
    return {
        "large": large,
        "tied": large,
        "half": torch.randn(1000, device="cuda").bfloat16(),
        "transposed": torch.randn(2000, 3000, device="cuda").t(),
        "every other": torch.randn(4000, 5000, device="cuda")[:, ::2],
        "expanded": torch.randn(5, device="cuda").expand(7, 5),
        "conjugated": complexes.conj(),
        "negated": complexes.conj().imag,
        "eight bits": torch.randn(100, device="cuda").to(torch.float8_e4m3fn),
        "flags": torch.rand(99, device="cuda") > 0.5,
        "scalar": torch.tensor(4.0, device="cuda"),
        "empty": torch.empty(0, 4, device="cuda"),
        "host": torch.randn(1000, 1000),
        "step": torch.tensor(7.0),
        "tiny": [torch.full((row + 1,), float(row), device="cuda") for row in range(500)],
    }


def tensors_of(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    items = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [tensor for item in items for tensor in tensors_of(item)]


def on_host(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.detach().resolve_conj().resolve_neg().cpu().clone().requires_grad_(state.requires_grad)
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return [on_host(value) for value in state] if isinstance(state, list) else state


def all_of(state: Any) -> frozenset[tuple[object, ...]]:
    return frozenset(identity(tensor) for tensor in tensors_of(state))


def spoil_values(state: Any) -> None:
    with torch.no_grad():
        for tensor in tensors_of(state):
            if tensor.is_floating_point() and tensor.element_size() > 1 and tensor.dim() and tensor.stride()[0]:
                tensor.fill_(-1)


def hold_up() -> None:
    torch.cuda._sleep(HELD_UP_CYCLES)


def written(taken: Taken, root: Path) -> PartReceipt:
    """As the writer does it, waiting for the watermark."""

    def filled(end: int) -> None:
        while taken.watermark.reached() < end:
            time.sleep(0.0005)

    final, image = root / taken.job.file, taken.job.image
    final.parent.mkdir(parents=True, exist_ok=True)
    with StagedFile(final, owner="check", file_bytes=image.file_bytes) as file:
        checksum = HeadChecksum(*write_image(file, taken.arena.memory, image, filled=filled))
        file.publish()
    return PartReceipt(taken.job.rank, taken.job.file, image.file_bytes, str(checksum))


def assert_file_is(taken: Taken, root: Path, expected: Any) -> None:
    differences = compare_states(Hdf5Store(root).read_part(written(taken, root)), expected)
    assert differences == [], differences


def check_all_is_copied_when_take_returns(root: Path) -> None:
    snapshot = Snapshot(rank=0)
    for step in range(3):
        state = odd_state()
        expected = on_host(state)
        hold_up()
        taken = snapshot.take(f"step-{step}.a1", state, {})
        assert taken.watermark.reached() == taken.job.image.file_bytes
        spoil_values(state)
        assert_file_is(taken, root, expected)
    snapshot.close()


def check_overlapped_copies_see_the_state_of_then(root: Path) -> None:
    """What the training enqueues behind `wait` is changed only after its copy, though the host never waited."""
    snapshot = Snapshot(rank=0)
    snapshot.take("step-0.a0", odd_state(), {})  # allocates and pins, which waits for the GPU
    for step in range(3):
        state = odd_state()
        expected = on_host(state)
        on_gpu = [tensor for tensor in tensors_of(state) if tensor.is_cuda]
        hold_up()
        taken = snapshot.take(f"step-{step}.a1", state, {}, overlap=True, overlapped=all_of(on_gpu))
        assert taken.watermark.reached() < taken.job.image.file_bytes, "the copies were waited for"
        taken.wait()
        assert taken.watermark.reached() < taken.job.image.file_bytes, "wait() waited on the host"
        spoil_values(state)
        assert_file_is(taken, root, expected)
    snapshot.close()


def check_memory_that_is_freed_meanwhile_is_not_used_again_too_early(root: Path) -> None:
    snapshot = Snapshot(rank=0)
    state = {
        "a": torch.arange(30_000_000, device="cuda"),
        "b": torch.arange(30_000_000, device="cuda").view(5000, -1).t(),
    }
    expected = on_host(state)
    hold_up()
    taken = snapshot.take("step-1.a1", state, {}, overlap=True, overlapped=all_of(state))
    del state
    garbage = [torch.full((30_000_000,), -1, device="cuda") for _ in range(4)]
    taken.wait()
    assert_file_is(taken, root, expected)
    del garbage
    snapshot.close()


def check_a_change_before_wait_spoils(root: Path) -> None:
    snapshot = Snapshot(rank=0)
    state = {"weight": torch.randn(10_000_000, device="cuda")}
    hold_up()
    taken = snapshot.take("step-1.a1", state, {}, overlap=True, overlapped=all_of(state))
    state["weight"].add_(1)
    for what, refusal in ((taken.wait, ChangedMeanwhile), (taken.watermark.reached, SnapshotSpoilt)):
        try:
            what()
        except refusal:
            continue
        raise AssertionError(f"{what} said nothing")
    taken = snapshot.take("step-2.a1", state, {})
    assert_file_is(taken, root, on_host(state))
    snapshot.close()


def check_the_memory_is_pinned(root: Path) -> None:
    snapshot = Snapshot(rank=0)
    taken = snapshot.take("step-1.a1", {"a": torch.ones(1000, device="cuda")}, {})
    image = torch.frombuffer(taken.arena.memory, dtype=torch.uint8)
    assert image.is_pinned(), "the arena isn't pinned: copies cost the host"
    del image
    snapshot.close()


CHECKS: tuple[Callable[[Path], None], ...] = (
    check_all_is_copied_when_take_returns,
    check_overlapped_copies_see_the_state_of_then,
    check_memory_that_is_freed_meanwhile_is_not_used_again_too_early,
    check_a_change_before_wait_spoils,
    check_the_memory_is_pinned,
)
