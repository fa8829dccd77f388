"""A loop that is interrupted goes on with exactly the items, and the random numbers, that it would have had."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from slurm_resilience.errors import CheckpointMismatch, ConfigurationError
from slurm_resilience.training.cursor import Cursor, Position
from slurm_resilience.training.loops import Loops
from slurm_resilience.training.training_state import TrainingState

SAMPLES = 22
Seen = list[tuple[int, int, str]]


class Interrupted(BaseException):
    pass


class Interrupter:
    """A boundary that takes the state after so many boundaries, and ends the training there."""

    def __init__(self, state: TrainingState, cursor: Cursor, after: int | None) -> None:
        self.state = state
        self.cursor = cursor
        self.after = after
        self.crossed = 0
        self.captured: dict[str, Any] | None = None

    def cross(self, *, ending: bool) -> None:
        if self.crossed == self.after:
            self.captured = copy.deepcopy(self.state.capture())
            raise Interrupted
        self.crossed += 1


class Noisy(Dataset[Any]):
    """Every sample draws from all three sources of random numbers."""

    def __init__(self) -> None:
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return (index, self.epoch, random.random(), float(np.random.rand()), torch.rand(2))  # noqa: NPY002


class Squares(Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index * index

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [index * index for index in indices]


class LazySampler(Sampler[int]):
    """Draws from Python's random numbers again and again while it is iterated."""

    def __iter__(self) -> Iterator[int]:
        return (random.randrange(SAMPLES) for _ in range(SAMPLES))

    def __len__(self) -> int:
        return SAMPLES


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(SAMPLES))


class RemembersItself:
    """As torchdata's StatefulDataLoader: it counts what it has handed out."""

    def __init__(self) -> None:
        self.done = 0

    def __iter__(self) -> Iterator[int]:
        while self.done < 9:
            self.done += 1
            yield self.done * 7
        self.done = 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noisy_collate(samples: list[Any]) -> Any:
    return (samples, torch.rand(1))


LOADERS: dict[str, Callable[[int], Any]] = {
    "in order": lambda workers: DataLoader(Noisy(), batch_size=4, num_workers=workers),
    "shuffled": lambda workers: DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers),
    "shuffled, last batch dropped": lambda workers: DataLoader(
        Noisy(), batch_size=4, shuffle=True, drop_last=True, num_workers=workers
    ),
    "shuffled by a generator of its own": lambda workers: DataLoader(
        Noisy(), batch_size=3, shuffle=True, generator=seeded(5), num_workers=workers
    ),
    "with replacement, by a generator of the sampler's": lambda workers: DataLoader(
        Noisy(),
        batch_size=3,
        sampler=RandomSampler(Noisy(), replacement=True, num_samples=70, generator=seeded(6)),
        num_workers=workers,
    ),
    "subset": lambda workers: DataLoader(
        Noisy(), batch_size=2, sampler=SubsetRandomSampler(range(11)), num_workers=workers
    ),
    "weighted": lambda workers: DataLoader(
        Noisy(), batch_size=5, sampler=WeightedRandomSampler([1.0 + i for i in range(SAMPLES)], 17), num_workers=workers
    ),
    "distributed": lambda workers: DataLoader(
        Noisy(), batch_size=2, sampler=DistributedSampler(Noisy(), num_replicas=2, rank=1), num_workers=workers
    ),
    "batch sampler": lambda workers: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(Noisy()), 5, drop_last=False), num_workers=workers
    ),
    "a sampler that draws late": lambda workers: DataLoader(
        Noisy(), batch_size=4, sampler=LazySampler(), num_workers=workers
    ),
    "single samples": lambda workers: DataLoader(Noisy(), batch_size=None, shuffle=True, num_workers=workers),
    "random numbers in the collate function": lambda workers: DataLoader(
        Squares(), batch_size=4, shuffle=True, collate_fn=noisy_collate, num_workers=workers
    ),
    "tensors": lambda workers: DataLoader(
        TensorDataset(torch.arange(SAMPLES)), batch_size=4, shuffle=True, num_workers=workers
    ),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "a list": lambda: list("abcdefgh"),
    "a range": lambda: range(9),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "a loader with its own state": RemembersItself,
}


def train(
    items: Any, *, epochs: int = 2, after: int | None = None, loaded: dict[str, Any] | None = None
) -> tuple[Seen, dict[str, Any] | None]:
    """What the training saw, and its state where it was interrupted after `after` boundaries."""
    random.seed(1)
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(3)
    cursor = Cursor()
    state = TrainingState(cursor)
    if loaded is not None:
        cursor.return_to(Position.of_state(loaded["position"]), finished=False)
        state.apply(loaded, "the test")
    boundary = Interrupter(state, cursor, after)
    loops = Loops(cursor=cursor, boundary=boundary, state=state, rank=0, loaded=loaded)  # type: ignore[arg-type]
    seen: Seen = []
    try:
        for epoch in loops.epochs(epochs):
            for item in loops.batches(items):
                own = (random.random(), float(np.random.rand()), float(torch.rand(1)))  # noqa: NPY002
                seen.append((epoch, cursor.step, f"{item} {own}"))
    except Interrupted:
        pass
    return seen, boundary.captured


def train_in_pieces(make: Callable[[], Any], cuts: list[int]) -> Seen:
    """Interrupted after so many boundaries of each attempt."""
    seen: Seen = []
    loaded = None
    for cut in [*cuts, None]:
        piece, captured = train(make(), after=cut, loaded=loaded)
        seen += piece
        if captured is None:
            break
        loaded = captured
    return seen


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, 12), max_size=3))
def test_interrupted_anywhere_the_training_sees_what_it_would_have_seen(name: str, cuts: list[int]) -> None:
    assert train_in_pieces(lambda: LOADERS[name](0), cuts) == train(LOADERS[name](0))[0]


@pytest.mark.parametrize("name", LOADERS)
def test_the_same_with_workers_and_without(name: str) -> None:
    undisturbed = train(LOADERS[name](0))[0]
    assert train_in_pieces(lambda: LOADERS[name](2), [5, 3]) == undisturbed


@pytest.mark.parametrize("cut", [0, 2, 6, 9])
def test_the_same_with_persistent_workers(cut: int) -> None:
    def make() -> Any:
        return DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)

    assert train_in_pieces(make, [cut]) == train(LOADERS["shuffled"](0))[0]


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=5, deadline=None)
@given(cuts=st.lists(st.integers(0, 12), max_size=3))
def test_other_iterables_go_on_where_they_were(name: str, cuts: list[int]) -> None:
    assert train_in_pieces(OTHERS[name], cuts) == train(OTHERS[name]())[0]


def test_what_must_be_loaded_again_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    train_in_pieces(OTHERS["a stream"], [4])
    assert "loading 4 items again" in capsys.readouterr().err


def test_nothing_is_loaded_to_get_behind_what_is_done() -> None:
    class Counting(Squares):
        loaded = 0

        def __getitems__(self, indices: list[int]) -> list[int]:
            Counting.loaded += len(indices)
            return super().__getitems__(indices)

    train_in_pieces(lambda: DataLoader(Counting(), batch_size=2, shuffle=True), [7])
    assert Counting.loaded == 2 * SAMPLES


def test_batches_in_order_are_those_of_the_plain_loader_and_so_is_the_order_of_the_shuffle() -> None:
    def shuffled() -> DataLoader[Any]:
        return DataLoader(Squares(), batch_size=4, shuffle=True)

    torch.manual_seed(3)
    loader = shuffled()
    plain = []
    for _ in range(2):
        for batch in loader:
            float(torch.rand(1))
            plain.append(str(batch))
    ours = [text.split(" (")[0] for _, _, text in train(shuffled())[0]]
    assert ours == plain


def test_a_loop_left_by_break_counts_the_step_it_was_left_in() -> None:
    cursor = Cursor()
    state = TrainingState(cursor)
    loops = Loops(
        cursor=cursor,
        boundary=Interrupter(state, cursor, None),  # type: ignore[arg-type]
        state=state,
        rank=0,
        loaded=None,
    )
    for epoch in loops.epochs(3):
        for number, _ in enumerate(loops.batches(range(10))):
            if number == 3:
                break
        assert (epoch, cursor.step) == (epoch, 4 * epoch + 3)
    assert cursor.step == 12


def test_two_loops_at_once_are_refused() -> None:
    cursor = Cursor()
    state = TrainingState(cursor)
    loops = Loops(
        cursor=cursor,
        boundary=Interrupter(state, cursor, None),  # type: ignore[arg-type]
        state=state,
        rank=0,
        loaded=None,
    )
    with pytest.raises(ConfigurationError, match="two loops"):
        list(zip(loops.batches(range(3)), loops.batches(range(3)), strict=True))


def test_another_kind_of_loop_can_not_be_entered_in_the_middle() -> None:
    _, captured = train(range(9), after=4)
    with pytest.raises(CheckpointMismatch, match="saved in a loop over a ReplayedSource"):
        train(LOADERS["shuffled"](0), loaded=captured)


def test_a_worker_s_init_function_sees_the_user_s_dataset() -> None:
    seen, _ = train(DataLoader(Noisy(), batch_size=4, num_workers=1, worker_init_fn=remember_kind), epochs=1)
    assert len(seen) == 6


def remember_kind(worker: int) -> None:
    info = torch.utils.data.get_worker_info()
    assert info is not None
    assert type(info.dataset) is Noisy
