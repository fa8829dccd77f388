"""Deaths, damage and mistakes, on two ranks."""

from __future__ import annotations

from slurm_resilience.manifest.chain import CheckpointState
from slurm_resilience.manifest.records import AttemptStarted, CheckpointCommitted
from slurm_resilience.signals.runtime_folder import RankPhase
from tests.training.run_under_test import Run


def flip_a_bit(run: Run, committed: CheckpointCommitted, rank: int) -> None:
    path = run.directory / committed.parts[rank].file
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    path.write_bytes(content)


def test_after_a_killed_rank_and_a_flipped_bit_it_walks_back_and_ends_with_the_same_weights(
    run: Run, undisturbed_weights: set[str]
) -> None:
    ranks = run.start("--save-every-steps=5", "--kill-rank-at", "1", "18")
    codes = ranks.wait()
    assert codes[1] == -9
    assert codes[0] != 0
    run.wait_until_saved(15)
    newest = run.newest_checkpoint()
    assert newest.step == 15

    flip_a_bit(run, newest, rank=1)
    ranks = run.start()
    assert ranks.wait() == [0, 0], ranks.said()
    assert "rank 0 begins at 10" in ranks.said()
    assert "going back to the one before" in ranks.said()
    damaged = [c for c in run.chain().checkpoints if c.state is CheckpointState.DAMAGED]
    assert [(c.committed.step, "rank 1" in (c.why or "")) for c in damaged] == [(15, True)]
    assert ranks.weights() == undisturbed_weights

    # Started once more, the finished run has nothing to do.
    ranks = run.start()
    assert ranks.wait() == [0, 0], ranks.said()
    assert " step " not in ranks.said().replace("at step", "")
    assert ranks.weights() == undisturbed_weights


def test_when_nothing_can_be_loaded_it_does_not_start_again_without_being_told(run: Run) -> None:
    ranks = run.start(stop_first=True)
    ranks.wait()
    flip_a_bit(run, run.newest_checkpoint(), rank=0)
    ranks = run.start()
    assert 0 not in ranks.wait()
    assert "NothingToResume" in ranks.said()
    assert run.newest_attempt().resumed is None

    ranks = run.start("--epochs=1", SLURM_RESILIENCE_FROM_SCRATCH="yes")
    assert ranks.wait() == [0, 0], ranks.said()
    assert "rank 0 begins at 0 from None" in ranks.said()


def test_another_number_of_ranks_or_other_objects_are_refused_in_one_sentence(run: Run) -> None:
    ranks = run.start(stop_first=True)
    ranks.wait()
    ranks = run.start(world_size=1)
    assert ranks.wait() == [1], ranks.said()
    assert "was written by 2 ranks and this attempt has 1" in ranks.said()
    ranks = run.start("--extra")
    assert 0 not in ranks.wait(), ranks.said()
    assert "registered and not in it: extra" in ranks.said()
    assert [path.name for path in sorted(run.folder.attempt(3).iterdir())] == [
        "error-rank-00000.txt",
        "error-rank-00001.txt",
    ]


def test_one_rank_that_raises_does_not_leave_the_other_waiting(run: Run) -> None:
    ranks = run.start("--raise-rank-at", "0", "5", "--save-every-steps=4")
    assert 0 not in ranks.wait(), ranks.said()
    assert "ValueError: the training itself has failed" in run.folder.rank_error(1, 0).read_text()
    assert [page.phase for page in ranks.pages()] == [RankPhase.FAILED, RankPhase.FAILED]
    assert not run.chain().finished


def test_ranks_of_an_attempt_that_has_a_successor_leave_without_writing(run: Run) -> None:
    ranks = run.start("--save-every-steps=1", "--step-seconds=0.05", "--epochs=100")
    ranks.wait_for("rank 0 step 3\n")
    run.wait_until(lambda: run.chain().loadable(), "the first checkpoint")
    run.journal.append(AttemptStarted(2, "local", ("python",), "host"))
    before = run.newest_checkpoint()
    assert 0 not in ranks.wait(), ranks.said()
    assert "Fenced: attempt 1 may not write any more" in ranks.said()
    assert run.newest_checkpoint() == before
