"""Plain tasks of a step with Slurm's plugin: whoever hears writes a page, and all ranks stop after one step."""

from __future__ import annotations

import shutil
import signal

import pytest

from slurm_resilience.manifest.records import SaveReason
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason
from tests.training.run_under_test import Run


def stopped_step(run: Run, tasks: int) -> int:
    """After which step the ranks stopped: the same on all of them, and saved."""
    ranks = run.attempts[-1]
    assert ranks.wait() == [0] * tasks, ranks.said()
    pages = ranks.pages()
    assert [page.phase for page in pages] == [RankPhase.STOPPED] * tasks
    [step] = {page.stopped_after_step for page in pages}
    committed = run.newest_checkpoint()
    assert (committed.step, committed.reason) == (step, SaveReason.STOP)
    return step


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_request_of_the_relay_stops_all_ranks_after_one_step_and_the_next_start_goes_on(
    run: Run, undisturbed_weights: set[str], tasks: int
) -> None:
    ranks = run.start_by_plugin("--step-seconds=0.2", tasks=tasks)
    ranks.wait_for("rank 0 step 4\n")
    assert (ranks.runtime / "run").read_text() == f"{run.directory}\n"
    for process in ranks.processes:  # Slurm's own, which no rank hears
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
    ranks.wait_for("rank 0 step 6\n")
    ranks.ask_to_stop(StopReason.TERMINATION)
    step = stopped_step(run, tasks)
    assert step >= 6

    ranks = run.start_by_plugin(tasks=tasks)
    assert ranks.wait() == [0] * tasks, ranks.said()
    assert f"rank 0 begins at {step}" in ranks.said()
    assert run.chain().finished
    if tasks == 2:
        assert ranks.weights() == undisturbed_weights


def test_ranks_whose_relay_dies_hear_for_themselves(run: Run) -> None:
    ranks = run.start_by_plugin("--step-seconds=0.05", "--epochs=100")
    ranks.wait_for("rank 0 step 2\n")
    ranks.processes[0].send_signal(signal.SIGTERM)
    shutil.rmtree(ranks.runtime, ignore_errors=True)
    assert ranks.wait() == [0]
    assert run.newest_checkpoint().reason is SaveReason.STOP


def test_ranks_without_a_relay_hear_from_the_beginning(run: Run) -> None:
    ranks = run.start_by_plugin("--step-seconds=0.2", SLURM_RESILIENCE_RELAY="/nonexistent/relay")
    ranks.wait_for("rank 0 step 2\n")
    ranks.processes[0].send_signal(signal.SIGUSR1)
    assert ranks.wait() == [0], ranks.said()
    assert run.newest_checkpoint().reason is SaveReason.STOP
    assert ranks.said().count("no relay in /nonexistent/relay") == 1
