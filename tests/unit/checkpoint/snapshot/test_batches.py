"""Cutting tensors into what is copied in one go."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.snapshot.batches import ChangedMeanwhile, Copy, batch_bytes, batches_of


def _strided(kind: str, rows: int, columns: int) -> torch.Tensor:
    plain = torch.arange(rows * columns * 4, dtype=torch.float32)
    match kind:
        case "contiguous":
            return plain[: rows * columns].reshape(rows, columns)
        case "transposed":
            return plain[: rows * columns].reshape(columns, rows).t()
        case "every other":
            return plain[: rows * columns * 2].reshape(rows, columns * 2)[:, ::2]
        case "expanded":
            return plain[:columns].expand(rows, columns)
        case "flipped strides":
            return plain.reshape(2, rows, columns * 2).permute(1, 2, 0)[:, :columns, 0]
    raise AssertionError(kind)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["contiguous", "transposed", "every other", "expanded", "flipped strides"]),
            st.integers(1, 40),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 3000),
)
def test_every_element_is_copied_once_to_its_place_whatever_the_strides(shapes, limit_bytes):
    sources = [_strided(*shape) for shape in shapes]
    image = torch.full((sum(source.numel() for source in sources),), -1.0)
    copies, at = [], 0
    for number, source in enumerate(sources):
        target = image[at : at + source.numel()].view(source.shape)
        copies.append(Copy(str(number), at * 4, target, source))
        at += source.numel()

    batches = batches_of(copies, limit_bytes)
    for batch in reversed(batches):
        batch.copy()

    assert torch.equal(image, torch.cat([source.reshape(-1) for source in sources]))
    covered = [target.nbytes for batch in batches for target in batch.targets]
    assert sum(covered) == image.nbytes
    starts = [batch.start for batch in batches]
    assert starts == sorted(starts)
    first_bytes = {batch.start: batch.targets[0].storage_offset() * 4 for batch in batches}
    assert all(start == where for start, where in first_bytes.items())


@pytest.mark.parametrize("conjugated", [False, True])
def test_a_lazy_conjugate_is_copied_as_what_it_means(conjugated):
    source = torch.randn(5, dtype=torch.complex64)
    source = source.conj() if conjugated else source
    target = torch.empty(5, dtype=torch.complex64)
    batches_of([Copy("a", 0, target, source)], 1 << 20)[0].copy()
    assert torch.equal(target, source.resolve_conj())


def test_a_tensor_changed_before_its_copy_is_done_is_named():
    source = torch.nn.Parameter(torch.zeros(4))
    (batch,) = batches_of([Copy("model/weight", 0, torch.empty(4), source.detach(), guarded=True)], 1 << 20)
    with torch.no_grad():
        source.add_(1)
    with pytest.raises(ChangedMeanwhile, match="model/weight"):
        batch.copy()


def test_a_tensor_whose_memory_moved_is_named():
    source = torch.zeros(4)
    (batch,) = batches_of([Copy("model/weight", 0, torch.empty(4), source, guarded=True)], 1 << 20)
    source.data = torch.ones(4)
    with pytest.raises(ChangedMeanwhile, match="model/weight"):
        batch.copy()


def test_a_tensor_that_torch_does_not_count_changes_of_is_copied_all_the_same():
    with torch.inference_mode():
        source = torch.ones(4)
    target = torch.zeros(4)
    batches_of([Copy("a", 0, target, source, guarded=True)], 1 << 20)[0].copy()
    assert target.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("total_bytes", "threads", "expected"), [(0, 2, 1 << 20), (128 << 20, 2, 8 << 20), (1 << 40, 2, 32 << 20)]
)
def test_batches_are_neither_tiny_nor_so_large_that_the_writer_waits(total_bytes, threads, expected):
    assert batch_bytes(total_bytes, threads) == expected
