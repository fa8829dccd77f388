"""What a rank gets of a checkpoint that other ranks, or more, or fewer, have written."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from slurm_resilience.checkpoint.distributed.shards import layouts_of
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.errors import CheckpointDamaged, CheckpointMismatch
from slurm_resilience.manifest.records import CheckpointCommitted, CheckpointId, Part, SaveReason
from slurm_resilience.training.cursor import Cursor, Position
from slurm_resilience.training.dealing import Dealing, behind
from slurm_resilience.training.loops import Loops, dealing_of
from slurm_resilience.training.part_loading import PartLoading
from slurm_resilience.training.random_state import capture_random_state, restore_random_state
from slurm_resilience.training.training_state import TrainingState

STEP = 12


def state_of(rank: int, *, seed: int | None = None, **more: Any) -> dict[str, Any]:
    """A rank's state; its random numbers are those of `seed`."""
    torch.manual_seed(rank if seed is None else seed)
    random = capture_random_state()
    random["python"]["gauss"] = 0.5  # the same on all ranks
    random["python"]["internal"] = torch.arange(625)
    return {
        "format": 1,
        "objects": {"model": {"weight": torch.arange(2000.0)}, "own": {"rank": rank}},
        "position": {"step": STEP, "epoch": 0, "section": 0, "item": 6, "total": 1},
        "random": random,
        "data": {"kind": "SeekableLoader", "kept": {"rank": rank}, "dealing": Dealing(4, 4, 2, 12).to_state()},
        "gradient_buckets": {"model": [1, 0]},
        "notes": {"mine": rank},
        **more,
    }


def save(folder: Path, states: list[dict[str, Any]]) -> CheckpointCommitted:
    store = Hdf5Store(folder)
    parts = []
    for rank, state in enumerate(states):
        receipt = store.write_part("some", rank=rank, state=state, attributes={})
        parts.append(Part(rank, receipt.file, receipt.bytes, receipt.checksum))
    return CheckpointCommitted(
        CheckpointId("some"), STEP, 1, SaveReason.PERIODIC, len(states), tuple(parts), seconds=1.0
    )


def loading(folder: Path, rank: int, world_size: int, *, may_change: bool = True) -> PartLoading:
    alive = layouts_of({"objects": {"model": {"weight": torch.zeros(2000)}}})
    return PartLoading(Hdf5Store(folder), rank=rank, world_size=world_size, alive=lambda: alive, may_change=may_change)


def test_another_number_of_ranks_is_refused_by_a_sentence_that_names_the_way_out(tmp_path: Path) -> None:
    committed = save(tmp_path, [state_of(0)])
    refusal = loading(tmp_path, 0, 2, may_change=False).refusal(committed)
    assert refusal == (
        "checkpoint some was written by 1 rank and this attempt has 2: start it with 1 rank, or allow another number "
        "by SLURM_RESILIENCE_WORLD_SIZE_MAY_CHANGE=yes"
    )
    assert loading(tmp_path, 0, 2).refusal(committed) is None
    assert loading(tmp_path, 0, 1, may_change=False).refusal(committed) is None


def test_as_many_ranks_get_each_its_own_down_to_its_random_numbers(tmp_path: Path) -> None:
    states = [state_of(rank) for rank in range(2)]
    committed = save(tmp_path, states)
    for rank in range(2):
        state = loading(tmp_path, rank, 2).load(committed)
        assert state["notes"] == {"mine": rank}
        assert state["data"] == states[rank]["data"]
        assert state["random"]["torch"].equal(states[rank]["random"]["torch"])


def test_a_rank_that_was_not_there_gets_rank_0s_and_nothing_that_was_a_ranks_alone(tmp_path: Path) -> None:
    committed = save(tmp_path, [state_of(rank) for rank in range(2)])
    state = loading(tmp_path, 2, 3).load(committed)
    assert state["objects"]["model"]["weight"].equal(torch.arange(2000.0))
    assert state["objects"]["own"] == {"rank": 0}
    assert state["notes"] == {"mine": 0}
    assert state["gradient_buckets"] == {}
    assert "kept" not in state["data"]
    assert loading(tmp_path, 1, 3).load(committed)["notes"] == {"mine": 1}


def test_a_loop_over_numbers_goes_on_where_it_was_with_any_number_of_ranks(tmp_path: Path) -> None:
    data = {"kind": "CountedSource", "kept": {}}
    committed = save(tmp_path, [state_of(rank, data=data) for rank in range(2)])
    state = loading(tmp_path, 0, 1).load(committed)
    assert (state["data"]["kind"], state["data"]["kept"], state["position"]["item"]) == ("CountedSource", {}, 6)


@pytest.mark.parametrize(
    ("seeds", "numbers"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5]),
        ([7, 7, 7, 7], [0, 0, 0, 0, 0, 0]),  # torch.manual_seed(7) everywhere: who skips which layer agrees
        ([7, 7, 8, 8], [0, 0, 1, 1, 2, 2]),  # two tensor-parallel ranks a model
        ([7], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_ranks_whose_random_numbers_were_alike_stay_alike(tmp_path: Path, seeds: list[int], numbers: list[int]) -> None:
    committed = save(tmp_path, [state_of(rank, seed=seed) for rank, seed in enumerate(seeds)])
    found = [loading(tmp_path, rank, 6).load(committed)["random"]["reseed"] for rank in range(6)]
    assert [each["torch"] for each in found] == numbers
    assert {each["step"] for each in found} == {STEP}
    if len(seeds) > 1:
        assert {each["python"] for each in found} == {0}  # its state is the same on all
    drawn = []
    for each in (*found, found[0]):
        restore_random_state({"reseed": each})
        drawn.append(float(torch.rand(1, dtype=torch.float64)))
    assert len(set(drawn)) == len(set(numbers))
    assert drawn[-1] == drawn[0]


def test_an_imported_state_without_random_numbers_is_seeded(tmp_path: Path) -> None:
    committed = save(tmp_path, [state_of(0, random=None, data={}), state_of(1, random=None, data={})])
    state = loading(tmp_path, 1, 3).load(committed)
    assert state["random"] == {"reseed": {"step": STEP, "python": 1, "numpy": 1, "torch": 1}}
    assert Dealing.of_state(state["data"]["dealing"]).ranks == 2


def test_what_failed_halfway_is_known_to_be_spoilt(tmp_path: Path) -> None:
    committed = save(tmp_path, [state_of(0), state_of(1)])
    path = tmp_path / committed.parts[0].file
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    part = loading(tmp_path, 0, 1)
    with pytest.raises(CheckpointDamaged, match=r"rank-00000\.h5"):
        part.load(committed)
    assert part.spoilt


def test_a_manifest_that_names_too_few_parts_is_damage_and_other_shapes_are_a_mismatch(tmp_path: Path) -> None:
    committed = save(tmp_path, [state_of(0), state_of(1)])
    fewer = CheckpointCommitted(committed.checkpoint, STEP, 1, SaveReason.PERIODIC, 3, committed.parts, seconds=1.0)
    with pytest.raises(CheckpointDamaged, match="names 2 parts of 3"):
        loading(tmp_path, 0, 1).load(fewer)
    alive = layouts_of({"objects": {"model": {"weight": torch.zeros(1999)}}})
    part = PartLoading(Hdf5Store(tmp_path), rank=0, world_size=1, alive=lambda: alive, may_change=True)
    with pytest.raises(CheckpointMismatch, match=r"weight has the shape \(1999,\), saved was \(2000,\)"):
        part.load(committed)


def test_what_an_optimizer_was_given_and_has_changed_before_its_loop_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    training = TrainingState(Cursor())
    training.register("optimizer", optimizer)
    weight.grad = torch.ones(3)
    optimizer.step()
    state = training.capture()
    training.apply(state, "a checkpoint")
    training.apply(state, "a checkpoint")
    assert capsys.readouterr().err == ""
    optimizer.step()
    training.apply(state, "a checkpoint")
    assert capsys.readouterr().err.startswith("slurm-resilience: optimizer/state/0/step and 2 more: changed since")
    training.apply(state, "a checkpoint")
    assert capsys.readouterr().err == ""


ranks = st.integers(1, 9)
batches = st.integers(1, 6)


def dealt(size: int, ranks: int, samples: int) -> Dealing:
    """As a DistributedSampler deals `size` samples."""
    return Dealing(ranks, ranks, samples, math.ceil(math.ceil(size / ranks) / samples))


@given(st.integers(1, 300), ranks, batches, ranks, batches, st.data())
def test_no_sample_is_left_out_and_as_few_as_possible_come_again(
    size: int, ranks: int, samples: int, other_ranks: int, other_samples: int, draw: st.DataObject
) -> None:
    before, now = dealt(size, ranks, samples), dealt(size, other_ranks, other_samples)
    assert before.items is not None
    done = draw.draw(st.integers(0, before.items))
    found = behind(done, before, now)
    if done == before.items:
        assert found.item == now.items
        return
    assert found.item * other_ranks * other_samples + found.samples_again == done * ranks * samples
    assert 0 <= found.samples_again < other_ranks * other_samples


@pytest.mark.parametrize(
    ("done", "before", "now", "item"),
    [
        (6, Dealing(4, 4, 2, 12), Dealing(2, 2, 2, 24), 12),
        (6, Dealing(4, 4, 2, 12), Dealing(2, 2, 4, 12), 6),  # the same global batch
        (
            6,
            Dealing(4, 2, 2, 24),
            Dealing(2, 2, 2, 24),
            6,
        ),  # two tensor-parallel ranks a model: two had turns before, too
        (6, Dealing(4, 4, 2, 12), Dealing(4, 2, 2, 24), 12),  # and as many ranks on another mesh
        (6, Dealing(2, None, None, 10), Dealing(1, 1, None, 10), 6),  # a list, the same for all
        (6, Dealing(2, None, 4, 10), Dealing(4, None, 4, 5), 3),  # a sampler that we don't know
        (6, Dealing(2, None, 4, None), Dealing(4, None, 4, None), 3),  # a stream: as far as anybody knows
        (6, Dealing(2), Dealing(1, 1, 4, 40), 12),  # imported
        (7, Dealing(1, 1, 8, 50), Dealing(1, 1, 2, 200), 28),
        (9, Dealing(2, 2, 4, 9), Dealing(1, 1, 4, 17), 17),
    ],
)
def test_where_to_go_on(done: int, before: Dealing, now: Dealing, item: int) -> None:
    assert behind(done, before, now).item == item
    assert Dealing.of_state(before.to_state()) == before


def test_a_loader_says_who_takes_turns() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(96))
    sampler: Any = DistributedSampler(data, num_replicas=4, rank=1)
    assert dealing_of(DataLoader(data, batch_size=3, sampler=sampler), 8) == Dealing(1, 4, 3, 8)
    in_batches = torch.utils.data.BatchSampler(sampler, 5, drop_last=False)
    assert dealing_of(DataLoader(data, batch_sampler=in_batches), 5) == Dealing(1, 4, 5, 5)
    assert dealing_of(DataLoader(data, batch_size=None, sampler=in_batches), 5) == Dealing(1, 4, 5, 5)
    assert dealing_of([1, 2, 3], 3) == Dealing(1, 1, None, 3)
    assert "torch.distributed" in sys.modules  # and not initialised


class Stopping:
    """A boundary that keeps the training's state behind its third step, and ends it there."""

    def __init__(self, state: TrainingState) -> None:
        self.state = state
        self.crossed = 0
        self.kept: dict[str, Any] | None = None

    def cross(self, *, ending: bool) -> None:
        self.crossed += 1
        if self.crossed == 4:
            self.kept = self.state.capture()
            raise KeyboardInterrupt


def shuffled(batch: int, loaded: dict[str, Any] | None) -> tuple[list[int], dict[str, Any] | None]:
    """The numbers that an epoch saw of 24, interrupted or to its end, and the state behind the third step."""
    cursor = Cursor()
    training = TrainingState(cursor)
    if loaded is not None:
        cursor.return_to(Position.of_state(loaded["position"]), finished=False)
        training.apply(loaded, "the test")
    boundary = Stopping(training)
    if loaded is not None:
        boundary.crossed = 100
    loops = Loops(cursor=cursor, boundary=boundary, state=training, rank=0, loaded=loaded)  # type: ignore[arg-type]
    loader = DataLoader(torch.utils.data.TensorDataset(torch.arange(24)), batch_size=batch, shuffle=True)
    seen: list[int] = []
    last = -1
    try:
        for _ in loops.epochs(1):
            for (numbers,) in loops.batches(loader):
                seen += numbers.tolist()
                last = cursor.item
    except KeyboardInterrupt:
        return seen, boundary.kept
    assert last == len(loader) - 1
    return seen, None


@pytest.mark.parametrize(("batch", "again"), [(4, []), (2, []), (6, []), (5, [10, 11]), (24, list(range(12)))])
def test_another_batch_size_goes_on_behind_the_same_samples_of_the_same_shuffle(
    batch: int, again: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    seen, kept = shuffled(4, None)
    assert len(seen) == 12
    more, _ = shuffled(batch, kept)
    assert sorted([*seen, *more[len(again) :]]) == list(range(24))
    assert [seen.index(number) for number in more[: len(again)]] == again
    assert (f"({len(again)} samples come again)" in capsys.readouterr().err) == bool(again)
