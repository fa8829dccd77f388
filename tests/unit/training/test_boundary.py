"""Requests that are not answered by a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.errors import Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from slurm_resilience.training.agreement import RanksDisagree
from slurm_resilience.training.boundary import Boundary
from slurm_resilience.training.cursor import Cursor
from slurm_resilience.training.rank_report import RankReport
from slurm_resilience.training.ranks import AloneRank, PeersGone, Ranks
from slurm_resilience.training.rhythm import SaveRhythm, TimeLimit
from slurm_resilience.training.saver import Saver
from slurm_resilience.training.savers import Savers
from slurm_resilience.training.stop_source import Stopped
from tests.unit.training.fakes import FakeClock, MemoryStore, TwoRanks


class Asked:
    """A stop source that says what the test wants."""

    def __init__(self, reason: StopReason | None) -> None:
        self.reason = reason

    def open(self) -> None: ...

    def close(self) -> None: ...

    def asked(self) -> bool:
        return self.reason is not None

    def read(self) -> StopRequest | None:
        return None if self.reason is None else StopRequest(self.reason, "the test says so", 0.0, math.inf)


class Bench:
    def __init__(
        self,
        folder: Path,
        reason: StopReason | None,
        ranks: Ranks | None = None,
        *,
        every_s: float | None = None,
        limit: Callable[[], TimeLimit | None] | None = None,
    ) -> None:
        self.journal = Journal(RunDirectory(folder / "run"))
        self.journal.create("test")
        self.journal.append(AttemptStarted(1, "local", (), "host"))
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.cursor = Cursor()
        self.stop = Asked(reason)
        ranks = ranks or AloneRank()
        saver = Saver(
            ranks=ranks,
            store=self.store,
            journal=self.journal,
            attempt=1,
            clock=self.clock,
            after_commit=lambda: None,
        )
        self.boundary = Boundary(
            ranks=ranks,
            stop=self.stop,
            savers=Savers(saver, None),
            journal=self.journal,
            attempt=1,
            rhythm=SaveRhythm(every_s, None),
            limit=limit,
            report=RankReport(None, local_rank=0, clock=self.clock),
            cursor=self.cursor,
            clock=self.clock,
            state=lambda: {"step": self.cursor.step},
            metric=lambda: None,
            saved_step=None,
            finished_before=False,
        )

    def saved_steps(self) -> list[int]:
        return [checkpoint.committed.step for checkpoint in Chain.of(self.journal.read()).checkpoints]


@pytest.mark.parametrize(
    "reason", [StopReason.WARNING, StopReason.TERMINATION, StopReason.TIME_LIMIT, StopReason.OPERATOR]
)
def test_most_requests_are_answered_by_a_checkpoint_and_written_down(tmp_path: Path, reason: StopReason) -> None:
    bench = Bench(tmp_path, reason)
    bench.cursor.step = 5
    with pytest.raises(Stopped):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == [5]
    asked = Chain.of(bench.journal.read()).attempts[0].stop_asked
    assert asked is not None
    assert (asked.reason, asked.because) == (reason.name, "the test says so")


def test_without_its_peers_a_rank_leaves_without_a_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, StopReason.PEER_FAILED)
    with pytest.raises(PeersGone):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == []


def test_a_ghost_leaves_without_a_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, StopReason.FENCED)
    with pytest.raises(Fenced):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == []


def test_a_step_that_is_saved_already_is_not_saved_again_for_a_stop(tmp_path: Path) -> None:
    bench = Bench(tmp_path, None)
    bench.cursor.step = 5
    bench.boundary.save_asked = True
    bench.boundary.cross(ending=False)
    bench.stop.reason = StopReason.TERMINATION
    with pytest.raises(Stopped):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == [5]


def test_behind_the_last_step_a_stop_saves_and_lets_the_training_finish(tmp_path: Path) -> None:
    bench = Bench(tmp_path, StopReason.TERMINATION)
    bench.cursor.step = 5
    bench.boundary.cross(ending=True)
    bench.boundary.finish()
    assert bench.saved_steps() == [5, 5]  # the second is final: who knows what came behind the last step
    assert Chain.of(bench.journal.read()).finished


def test_a_rank_at_another_step_is_an_error_that_names_both(tmp_path: Path) -> None:
    ranks = TwoRanks(lambda row: [row[0] + 3, row[1] - 3, *row[2:]])
    bench = Bench(tmp_path, None, ranks)
    with pytest.raises(RanksDisagree, match="completed 3 steps and another 0"):
        bench.boundary.cross(ending=False)


def test_a_save_comes_before_the_end_of_the_time_also_where_that_has_moved(tmp_path: Path) -> None:
    ends = [TimeLimit(100_000.0)]
    bench = Bench(tmp_path, None, every_s=3600.0, limit=lambda: ends[-1])
    bench.clock.sleep(1000.0)
    bench.cursor.step = 5
    bench.boundary.cross(ending=False)
    assert bench.saved_steps() == []
    ends.append(TimeLimit(bench.clock.monotonic_s() + 20.0))
    bench.clock.sleep(5.0)
    bench.boundary.cross(ending=False)
    assert bench.saved_steps() == [5]
