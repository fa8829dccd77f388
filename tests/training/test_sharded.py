"""Sharded, replicated, frozen, changed meanwhile: every checkpoint is the state of its step, and comes back as that."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.distributed.assembly import put_together
from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.presence import SHARDS
from slurm_resilience.checkpoint.distributed.shard_notes import Layout, Mesh, ShardNote, to_state
from slurm_resilience.checkpoint.distributed.shards import Layouts
from slurm_resilience.checkpoint.format.plan import Planner
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.manifest.chain import CheckpointState
from slurm_resilience.manifest.records import CheckpointCommitted, SaveReason
from slurm_resilience.training.loans import Loan, Loans
from slurm_resilience.training.part_loading import receipts_of
from tests.training.run_under_test import Ranks, Run
from tests.training.sharded_training import digest_of
from tests.unit.training.thread_ranks import ThreadRanks, on_ranks

PROGRAM = Path(__file__).with_name("sharded_training.py")
LONG = ("--epochs=2",)


def train(run: Run, layout: str, *options: str, world_size: int = 2, code: int = 0, may_change: bool = False) -> Ranks:
    """One attempt, to its end."""
    ranks = run.start(
        f"--layout={layout}",
        *options,
        world_size=world_size,
        script=PROGRAM,
        SLURM_RESILIENCE_WORLD_SIZE_MAY_CHANGE="yes" if may_change else "",
    )
    assert ranks.wait() == [code] * world_size, ranks.said()
    return ranks


def digests(ranks: Ranks, rank: int = 0) -> dict[int, str]:
    """Of the whole state after each step, as `rank` said it."""
    found = re.findall(r"step (\d+) draws \S+ is (\w+)", ranks.outputs[rank].read_text())
    return {int(step): digest for step, digest in found}


def beginnings(ranks: Ranks) -> set[tuple[int, str]]:
    """At which step, and as what, each rank began."""
    return {(int(step), digest) for step, digest in re.findall(r"begins at (\d+) as (\w+)", ranks.said())}


def saved(run: Run, committed: CheckpointCommitted, rank: int = 0) -> str:
    """The digest of a checkpoint, as `rank` would get it back: all tensors whole."""
    shelf = PartsShelf(Hdf5Store(run.directory), receipts_of(committed))
    return digest_of(put_together(shelf, shelf.skeleton(rank), Layouts(), nearest=rank)["objects"])


def check_saved(run: Run, said: dict[int, str], rank: int = 0) -> list[int]:
    """Every checkpoint of these steps that there is holds what was said of its step; which they are."""
    there = [each.committed for each in run.chain().loadable() if each.committed.step in said]
    assert {each.step: saved(run, each, rank) for each in there} == {each.step: said[each.step] for each in there}
    return sorted({each.step for each in there})


def trained_lines(output: Path) -> list[str]:
    return re.findall(r"rank .* (?:takes|draws) .*", output.read_text())


def part_bytes(committed: CheckpointCommitted) -> int:
    return sum(part.bytes for part in committed.parts)


@pytest.fixture
def more_runs(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []

    def make(name: str) -> Run:
        (tmp_path / name).mkdir()
        runs.append(Run(tmp_path / name / "run"))
        return runs[-1]

    yield make
    for ranks in (ranks for run in runs for ranks in run.attempts):
        ranks.end()


def test_a_stopped_fsdp_run_ends_as_if_undisturbed_and_another_placement_begins_with_the_same_state(
    run: Run, more_runs: Callable[[str], Run]
) -> None:
    undisturbed, other = more_runs("undisturbed"), more_runs("other")
    whole = train(undisturbed, "fsdp", *LONG, "--overlap", "--save-every-steps=16")
    expected = digests(whole)
    assert check_saved(undisturbed, expected) == [16, 32, 48]
    assert whole.said().count("copied beside the training") >= 2 * 2

    ranks = run.start("--layout=fsdp", *LONG, "--save-every-steps=8", "--step-seconds=0.2", script=PROGRAM)
    ranks.wait_for("rank 0 step 10 ")
    ranks.ask_to_stop()
    assert ranks.wait() == [0, 0], ranks.said()
    newest = run.newest_checkpoint()
    assert newest.reason is SaveReason.STOP
    assert check_saved(run, expected)[-1] == newest.step < 48
    shutil.copytree(run.directory, other.directory)

    ranks = train(run, "fsdp", *LONG)
    assert beginnings(ranks) == {(newest.step, expected[newest.step])}
    assert min(digests(ranks)) == newest.step + 1
    for output, undisturbed_output in zip(ranks.outputs, whole.outputs, strict=True):
        lines = trained_lines(output)  # samples, random numbers, digests: to the end
        assert trained_lines(undisturbed_output)[-len(lines) :] == lines

    ranks = train(other, "tp", *LONG, f"--die-at={newest.step + 1}", code=9)
    assert beginnings(ranks) == {(newest.step, expected[newest.step])}


def test_what_is_copied_beside_the_next_step_is_the_state_of_its_own(run: Run) -> None:
    ranks = train(run, "plain", "--overlap", "--optimizer=fused", "--save-every-steps=4", "--batch=4", world_size=1)
    assert ranks.said().count("copied beside the training") >= 5
    assert check_saved(run, digests(ranks)) == [4, 8, 12, 16, 20, 24]


def test_what_a_program_changes_frees_and_resizes_once_a_save_has_begun_is_saved_as_it_was(run: Run) -> None:
    ranks = train(run, "plain", "--spoil", "--save-every-steps=6", "--batch=4", world_size=1)
    assert check_saved(run, digests(ranks)) == [6, 12, 18, 24]


def test_replicas_take_the_space_of_one_and_ranks_that_diverge_are_told_of_and_get_back_their_own(run: Run) -> None:
    beside = ("--overlap", "--optimizer=foreach")  # copied while the next step computes
    options = ("--width=256", "--save-every-steps=4", "--batch=4", "--diverge-rank-at", "1", "5")
    ranks = train(run, "ddp", *beside, *options)
    assert ranks.said().count("copied beside the training") >= 2 * 2
    first, *_, last = run.chain().checkpoints
    alone = 4 * 3 * 2 * 256 * 256  # AdamW: two moments beside each weight of the two layers that count
    assert first.committed.step == 4
    assert alone < part_bytes(first.committed) < 1.2 * alone
    assert [failed.step for failed in run.newest_attempt().saves_failed] == [8]
    assert "rank 1 and rank 0 hold different content in tensors that were the same" in ranks.said()
    assert "objects/model/down.weight: no longer the same on all ranks" in ranks.said()
    assert last.committed.step == 12
    assert digests(ranks, 0)[12] != digests(ranks, 1)[12]
    for rank in (0, 1):
        assert check_saved(run, digests(ranks, rank), rank) == [4, 12]


def test_what_is_frozen_is_written_once_and_outlives_the_checkpoint_that_held_it(run: Run) -> None:
    ranks = train(run, "ddp", "--frozen", "--width=512", "--save-every-steps=2", "--batch=4", "--keep-last=1")
    checkpoints = run.chain().checkpoints
    first, _, third, *_ = (each.committed for each in checkpoints)
    assert part_bytes(third) < 0.3 * part_bytes(first)
    assert [each.state for each in checkpoints[:-1]] == [CheckpointState.FORGOTTEN] * 6
    assert not (run.folder.checkpoints / first.checkpoint).exists()
    for rank in (0, 1):
        assert check_saved(run, digests(ranks, rank), rank) == [12]


def test_shards_that_happen_to_be_equal_are_nobodys_replicas(tmp_path: Path) -> None:
    def program(ranks: ThreadRanks) -> list[Loan]:
        loans = Loans(ranks=ranks, store=Hdf5Store(tmp_path), planner=Planner(), folder=tmp_path / "checkpoints")
        note = ShardNote("float32", Layout((8192,), (1,), Mesh((2,), None, (0, 1)), ("S(0)",)), ())
        state: dict[str, Any] = {
            "objects": {"model": {"norm": torch.ones(4096), "same": torch.ones(4096)}},
            SHARDS: to_state({"objects/model/norm": note}),
        }
        begun = loans.arrange("first", state, {})
        state["objects"]["model"]["norm"] += ranks.rank  # learnt something
        return [begun, loans.arrange("second", state, {})]

    for each in zip(*on_ranks(2, program), strict=True):
        assert sorted(name for loan in each for name in loan.borrowed) == ["objects/model/same"]
        assert [len(loan.shared_rows) for loan in each] == [1, 1]
