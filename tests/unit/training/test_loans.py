"""What is the same on all ranks is written once, what hasn't changed not at all, and both are proved every time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.format.plan import Planner
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.commit.part_word import shared_proof
from slurm_resilience.errors import CheckpointDamaged
from slurm_resilience.training.loans import Loan, Loans
from slurm_resilience.training.ranks import AloneRank, Ranks
from slurm_resilience.training.replicas import assign
from slurm_resilience.training.unchanged import MOST_GENERATIONS
from tests.unit.training.thread_ranks import ThreadRanks, on_ranks

MIB = 1 << 20


@dataclass
class Saver:
    """One rank that saves: what training does, in short."""

    root: Path
    ranks: Ranks

    def __post_init__(self) -> None:
        self.store = Hdf5Store(self.root)
        self.loans = Loans(ranks=self.ranks, store=self.store, planner=Planner(), folder=self.root / "checkpoints")
        self.loan = Loan()

    def save(self, step: int, state: dict[str, Any]) -> PartReceipt:
        checkpoint = f"step-{step:010d}.a1"
        self.loan = self.loans.arrange(checkpoint, state, {"step": step})
        receipt = self.store.write_part(
            checkpoint, rank=self.ranks.rank, state=state, attributes={"step": step}, borrowed=self.loan.borrowed
        )
        proofs = self.ranks.all_gather(self.proof(receipt))
        if len(set(proofs)) > 1:
            self.loans.distrust()
            raise Diverged(step)
        self.loans.committed(checkpoint, receipt)
        return receipt

    def proof(self, receipt: PartReceipt) -> str:
        placed = self.store.head_of(receipt).placed
        return shared_proof(placed[row].checksum for row in self.loan.shared_rows)


class Diverged(Exception):
    pass


def model(seed: int, *, tensors: int = 6) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {f"w{number}": torch.randn(200 + number, 100, generator=generator) for number in range(tensors)}


def state_of(rank: int, **objects: Any) -> dict[str, Any]:
    return {"objects": objects, "random": torch.full((5000,), float(rank)), "rank": rank}


def test_what_is_the_same_on_all_ranks_is_written_once_and_comes_back_on_each(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> PartReceipt:
        saver = Saver(tmp_path, ranks)
        state = state_of(ranks.rank, model=model(1), own=model(ranks.rank + 7, tensors=1))
        receipt = saver.save(10, state)
        ranks.all_gather(None)
        assert compare_states(state, saver.store.read_part(receipt)) == []
        return receipt

    receipts = on_ranks(3, program)
    one = sum(tensor.nbytes for tensor in model(1).values())
    own = 3 * (200 * 100 * 4 + 20_000)
    assert sum(receipt.bytes for receipt in receipts) < one + own + 3 * 64 * 1024
    assert max(receipt.bytes for receipt in receipts) < 2 * min(receipt.bytes for receipt in receipts)


def test_what_ranks_share_is_verified_once_and_found_out_when_it_rots(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> PartReceipt:
        return Saver(tmp_path, ranks).save(10, state_of(ranks.rank, model=model(1)))

    receipts = on_ranks(3, program)
    store = Hdf5Store(tmp_path)
    read_bytes: list[int] = []
    store.verify_parts(receipts, progress=read_bytes.append)
    one = sum(tensor.nbytes for tensor in model(1).values())
    assert one < sum(read_bytes) < 1.2 * one
    path = store.path_of(receipts[1])
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointDamaged, match="has the checksum"):
        store.verify_parts(receipts)


def test_a_plan_serves_from_save_to_save_and_every_save_holds_what_is_then(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> None:
        saver = Saver(tmp_path, ranks)
        for step in (1, 2, 3):
            state = state_of(ranks.rank, model=model(step), text="x" * step * 2000)
            receipt = saver.save(step, state)
            ranks.all_gather(None)
            assert compare_states(state, saver.store.read_part(receipt)) == []

    on_ranks(2, program)


def test_ranks_that_diverge_are_found_out_and_then_write_what_differs_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def program(ranks: ThreadRanks) -> None:
        saver = Saver(tmp_path, ranks)
        weights = model(1)
        saver.save(1, state_of(ranks.rank, model=weights))
        if ranks.rank == 1:
            weights["w3"][0, 0] += 1
        state = state_of(ranks.rank, model=weights)
        with pytest.raises(Diverged):
            saver.save(2, state)
        receipt = saver.save(3, state)
        ranks.all_gather(None)
        assert compare_states(state, saver.store.read_part(receipt)) == []

    on_ranks(2, program)
    assert "objects/model/w3: no longer the same on all ranks" in capsys.readouterr().err


def test_ranks_with_different_states_share_what_they_have_in_common(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> int:
        saver = Saver(tmp_path, ranks)
        stages = {f"stage{ranks.rank}": model(ranks.rank), "embedding": model(9, tensors=1)}
        state = state_of(ranks.rank, **stages)
        receipt = saver.save(1, state)
        ranks.all_gather(None)
        assert compare_states(state, saver.store.read_part(receipt)) == []
        return len(saver.loan.shared_rows)

    assert on_ranks(2, program) == [1, 1]


def _frozen(changing: float) -> dict[str, Any]:
    return {"frozen": torch.arange(2 * MIB // 4, dtype=torch.float32), "head": torch.full((3000,), changing)}


def test_what_has_not_changed_is_not_written_again_and_outlives_the_checkpoint_that_has_it(tmp_path: Path) -> None:
    saver = Saver(tmp_path, AloneRank())
    sizes = []
    for step in (1, 2, 3, 4):
        state = state_of(0, model=_frozen(float(step)))
        receipt = saver.save(step, state)
        sizes.append(receipt.bytes)
        if step > 1:
            saver.store.delete(f"step-{step - 1:010d}.a1")
        assert compare_states(state, saver.store.read_part(receipt)) == []
    assert sizes[0] > 2 * MIB
    assert all(size < MIB for size in sizes[1:])


def test_what_was_frozen_and_changes_is_written_again(tmp_path: Path) -> None:
    saver = Saver(tmp_path, AloneRank())
    weights = _frozen(1.0)
    for step in (1, 2, 3):
        weights["head"] += 1
        saver.save(step, state_of(0, model=weights))
    weights["frozen"][7] = -1
    receipt = saver.save(4, state_of(0, model=weights))
    assert receipt.bytes > 2 * MIB
    assert compare_states(state_of(0, model=weights), saver.store.read_part(receipt)) == []


def test_one_file_is_not_built_on_for_ever(tmp_path: Path) -> None:
    saver = Saver(tmp_path, AloneRank())
    whole = [
        step
        for step in range(1, MOST_GENERATIONS + 4)
        if saver.save(step, state_of(0, model=_frozen(float(step)))).bytes > 2 * MIB
    ]
    assert whole == [1, MOST_GENERATIONS + 2]


def test_a_file_is_not_kept_for_a_small_part_of_it(tmp_path: Path) -> None:
    saver = Saver(tmp_path, AloneRank())
    for step in (1, 2):
        weights = {"frozen": torch.ones(MIB // 2), "large": torch.full((MIB,), float(step))}
        assert saver.save(step, state_of(0, model=weights)).bytes > 6 * MIB


def test_without_hard_links_everything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    saver = Saver(tmp_path, AloneRank())
    for step in (1, 2):
        assert saver.save(step, state_of(0, model=_frozen(float(step)))).bytes > 2 * MIB


def test_frozen_tensors_of_replicas_are_linked_by_their_owner_and_read_by_all(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> list[int]:
        saver = Saver(tmp_path, ranks)
        sizes = []
        for step in (1, 2, 3, 4):
            frozen = {f"f{number}": torch.full((MIB // 4 + number,), float(number)) for number in range(4)}
            state = state_of(ranks.rank, base=frozen, head=torch.full((3000,), float(step)))
            receipt = saver.save(step, state)
            sizes.append(receipt.bytes)
            ranks.all_gather(None)
            if step > 1 and ranks.rank == 0:
                saver.store.delete(f"step-{step - 1:010d}.a1")
            ranks.all_gather(None)
            assert compare_states(state, saver.store.read_part(receipt)) == []
        return sizes

    for sizes in on_ranks(2, program):
        assert sizes[0] > 2 * MIB
        assert all(size < MIB for size in sizes[1:])


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=20),
    st.lists(st.integers(0, 1000), min_size=1, max_size=5),
)
def test_nobody_is_given_work_while_another_has_less(shared: dict[str, int], own: list[int]) -> None:
    owners = assign(shared, own)
    assert owners.keys() == shared.keys()
    loads = list(own)
    for name, owner in owners.items():
        loads[owner] += shared[name]
    largest = max(shared.values(), default=0)
    assert max(loads) <= max(*own, min(loads) + largest)
