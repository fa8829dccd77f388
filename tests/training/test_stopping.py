"""Stop requests at every inconvenient moment, on two ranks with DataLoader workers."""

from __future__ import annotations

import random

from slurm_resilience.manifest.records import SaveReason, checkpoint_id
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason
from tests.training.run_under_test import Run


def stopped_step(run: Run) -> int:
    """After which step the last attempt stopped: one and the same on all ranks, and its checkpoint exists."""
    ranks = run.attempts[-1]
    assert ranks.wait() == [0, 0], ranks.said()
    pages = ranks.pages()
    assert [page.phase for page in pages] == [RankPhase.STOPPED, RankPhase.STOPPED]
    steps = {page.stopped_after_step for page in pages}
    assert len(steps) == 1
    step = steps.pop()
    assert run.newest_checkpoint().step == step
    assert {page.saved_step for page in pages} == {step}
    return step


def test_stopped_twice_at_random_moments_it_ends_with_the_weights_of_an_undisturbed_run(
    run: Run, undisturbed_weights: set[str]
) -> None:
    # Slow enough that the request comes long before the end, whatever else this machine does.
    ranks = run.start("--step-seconds=0.2")
    ranks.wait_for(f"rank 0 step {random.randint(1, 8)}\n")
    ranks.ask_to_stop()
    first = stopped_step(run)
    assert run.newest_checkpoint().reason is SaveReason.STOP

    # Now with a save after every second step, so that the request likely comes during one.
    ranks = run.start("--step-seconds=0.2", "--save-every-steps=2")
    ranks.wait_for(f"rank 1 step {first + random.randint(1, 4)}\n")
    ranks.ask_to_stop()
    second = stopped_step(run)
    assert second > first

    ranks = run.start(SLURM_RESILIENCE_RUN_ID="whatever")
    assert ranks.wait() == [0, 0], ranks.said()
    assert f"rank 1 begins at {second}" in ranks.said()
    assert ranks.weights() == undisturbed_weights
    assert run.chain().finished
    assert [page.phase for page in ranks.pages()] == [RankPhase.FINISHED, RankPhase.FINISHED]
    resumed = run.newest_attempt().resumed
    assert resumed is not None
    assert resumed.step == second


def test_a_request_that_is_there_before_the_first_step_stops_before_it(run: Run) -> None:
    run.start(stop_first=True)
    assert stopped_step(run) == 0


def test_a_request_during_the_first_step_stops_after_it(run: Run) -> None:
    ranks = run.start("--hold-at", "1", str(run.go_on))
    ranks.wait_for("rank 0 step 1\n")
    ranks.ask_to_stop(StopReason.WARNING)
    run.go_on.touch()
    assert stopped_step(run) == 1


def test_while_one_rank_evaluates_the_others_wait_and_all_stop_at_one_step(
    run: Run, undisturbed_weights: set[str]
) -> None:
    ranks = run.start("--evaluate-rank-at", "1", "7", "--evaluate-seconds=2", "--step-seconds=0.2")
    ranks.wait_for("rank 1 evaluates")
    ranks.ask_to_stop()
    step = stopped_step(run)
    assert step >= 7

    ranks = run.start()
    assert ranks.wait() == [0, 0], ranks.said()
    assert ranks.weights() == undisturbed_weights


def test_a_failing_save_does_not_end_the_training(run: Run, undisturbed_weights: set[str]) -> None:
    ranks = run.start("--failing-saves=3", "--save-every-steps=10")
    assert ranks.wait() == [0, 0], ranks.said()
    assert ranks.weights() == undisturbed_weights
    attempt = run.newest_attempt()
    assert [failed.step for failed in attempt.saves_failed] == [10, 20]  # the same words about one step count once
    assert [committed.step for committed in attempt.checkpoints] == [20, 30, 40, 48]
    assert not (run.folder.checkpoints / checkpoint_id(10, 1)).exists()
    assert "no space left" in ranks.said()


def test_at_a_stop_a_failing_save_is_tried_until_it_succeeds(run: Run) -> None:
    ranks = run.start("--failing-saves=2", "--step-seconds=0.2")
    ranks.wait_for("rank 0 step 3\n")
    ranks.ask_to_stop()
    stopped_step(run)


def test_at_a_stop_without_time_for_another_try_the_last_good_checkpoint_stays(run: Run) -> None:
    ranks = run.start("--failing-saves=100", "--step-seconds=0.2")
    ranks.wait_for("rank 0 step 3\n")
    ranks.ask_to_stop(seconds=2)
    assert ranks.wait() == [0, 0], ranks.said()
    assert [page.phase for page in ranks.pages()] == [RankPhase.STOPPED, RankPhase.STOPPED]
    assert not run.chain().checkpoints
    assert "without its checkpoint" in ranks.said()


def test_torchrun_alone_hands_on_sigterm_and_the_run_comes_back(run: Run, undisturbed_weights: set[str]) -> None:
    ranks = run.start_bare("--step-seconds=0.2")
    ranks.wait_for("rank 1 step 9\n")
    ranks.processes[0].terminate()
    ranks.wait()
    step = run.newest_checkpoint().step
    assert step >= 9
    assert run.newest_checkpoint().reason is SaveReason.STOP

    ranks = run.start_bare()
    assert ranks.wait() == [0], ranks.said()
    assert f"begins at {step}" in ranks.said()
    assert ranks.weights() == undisturbed_weights
