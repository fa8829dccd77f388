"""Two ranks, their run directory, and a second place for what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.commit.part_word import Terms
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    AttemptStarted,
    CheckpointCommitted,
    Part,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.homecoming import Homecoming
from slurm_resilience.training.part_loading import receipts_of
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.second_place import NotStaged, SecondPlace, Staged
from tests.unit.training.fakes import FakeClock
from tests.unit.training.thread_ranks import ThreadRanks, on_ranks

RANKS = 2


def state_of(step: int, rank: int) -> dict[str, Any]:
    return {"weights": torch.arange(5000.0) * step + rank, "step": step}


class Scene:
    """Two ranks, their run directory and their second place."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDirectory(folder / "run")
        self.place = folder / "second"
        self.place.mkdir()
        self.journal = Journal(self.run, patience_s=0.1)
        self.run_id = self.journal.create("test")
        self.begin(1)

    def begin(self, attempt: int, *, resumed: bool = False) -> None:
        self.journal.append(AttemptStarted(attempt, "local", (), "host"))
        if resumed:
            self.journal.append(AttemptResumed(attempt, None, 0, RANKS))

    def chain(self) -> Chain:
        return Chain.of(self.journal.read())

    def second(self, ranks: Ranks, attempt: int) -> SecondPlace:
        return SecondPlace(
            self.place,
            run_id=self.run_id,
            ranks=ranks,
            journal=Journal(self.run, patience_s=0.1),
            attempt=attempt,
            clock=FakeClock(),
        )

    def stage(self, *steps: int, attempt: int = 1) -> Staged | NotStaged:
        def program(ranks: ThreadRanks) -> Staged | NotStaged:
            second = self.second(ranks, attempt)
            outcome: Staged | NotStaged = NotStaged("nothing was asked for")
            for step in steps:
                terms = Terms(checkpoint_id(step, attempt), step, attempt, SaveReason.STOP, RANKS, metric=0.25)
                outcome = second.stage(terms, state_of(step, ranks.rank), {"step": step})
            return outcome

        outcomes = on_ranks(RANKS, program)
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    def durable(self, step: int, attempt: int = 1) -> None:
        store, name = Hdf5Store(self.run.path), checkpoint_id(step, attempt)
        receipts = [
            store.write_part(name, rank=rank, state=state_of(step, rank), attributes={}) for rank in range(RANKS)
        ]
        parts = tuple(Part(each.rank, each.file, each.bytes, each.checksum) for each in receipts)
        self.journal.append(CheckpointCommitted(name, step, attempt, SaveReason.PERIODIC, RANKS, parts, 1.0))

    def bring_home(self, attempt: int, *, place: bool = True, room: Any = None, world_size: int = RANKS) -> None:
        def program(ranks: ThreadRanks) -> None:
            Homecoming(
                ranks=ranks,
                journal=Journal(self.run),
                attempt=attempt,
                clock=FakeClock(),
                second_place=self.place if place else None,
                room=room if ranks.rank == 0 else None,
            ).bring()

        on_ranks(world_size, program)

    def staged_files(self) -> list[str]:
        return sorted(str(path.relative_to(self.place)) for path in self.place.rglob("*") if path.is_file())

    def newest_states(self) -> list[dict[str, Any]]:
        store = Hdf5Store(self.run.path)
        return [store.read_part(receipt) for receipt in receipts_of(self.chain().loadable()[0].committed)]


def is_step(states: list[dict[str, Any]], step: int) -> bool:
    return all(torch.equal(state["weights"], state_of(step, rank)["weights"]) for rank, state in enumerate(states))
