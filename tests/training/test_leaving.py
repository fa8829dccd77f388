"""A rank whose children can't hear SIGTERM still ends."""

from __future__ import annotations

from pathlib import Path

from tests.training.run_under_test import Run

LEAVES_A_POOL = """
import multiprocessing, os, sys, time
from slurm_resilience.training import open_run

def deaf(seconds):
    time.sleep(seconds)

if __name__ == "__main__":
    with open_run() as run:
        pool = multiprocessing.get_context("fork").Pool(2)
        pool.map_async(deaf, [1000, 1000])
        child = multiprocessing.get_context("fork").Process(target=deaf, args=(1000,), daemon=True)
        child.start()
        for step in run.steps(3):
            pass
    print("children", child.pid, flush=True)
"""


def test_a_pool_left_open_with_sigterm_blocked_does_not_hold_up_the_exit(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "leaves_a_pool.py"
    script.write_text(LEAVES_A_POOL)
    ranks = run.start(world_size=1, script=script)
    assert ranks.wait() == [0], ranks.said()
    child = int(ranks.said().split("children ")[1].split()[0])
    assert not Path(f"/proc/{child}").exists()


CLINGS_TO_LIFE = """
import atexit, ctypes, sys, time
from slurm_resilience.training import open_run

class Slow:
    def __del__(self):
        time.sleep(600)  # what a communicator's destructor can look like

kept_for_ever = Slow()
kept_for_ever.myself = kept_for_ever
atexit.register(lambda: print("exit handlers run", flush=False))
try:
    with open_run() as run:
        for step in run.steps(10_000):
            print("step", step, flush=True)
            time.sleep(0.05)
finally:
    print("finally runs", flush=False)
"""


def test_a_stopped_rank_runs_its_exit_handlers_and_waits_for_no_destructor(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "clings_to_life.py"
    script.write_text(CLINGS_TO_LIFE)
    ranks = run.start(world_size=1, script=script)
    ranks.wait_for("step 1\n")
    ranks.ask_to_stop()
    assert ranks.wait() == [0], ranks.said()
    assert "finally runs" in ranks.said()
    assert "exit handlers run" in ranks.said()
