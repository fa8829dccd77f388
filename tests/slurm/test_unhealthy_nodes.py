"""A node whose health note forbids it: the next attempt runs elsewhere, as the same job and as a successor.

What Slurm's plugin writes there, the program does here.
"""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from tests.slurm.foreign import PATIENCE_S, Foreign
from tests.slurm.jobs import Jobs, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)

AILS_ONCE = """
import json, os, sys, time
from pathlib import Path

notes, node, attempt = Path(sys.argv[1]), os.environ["SLURMD_NODENAME"], os.environ["SLURM_RESILIENCE_ATTEMPT"]
(notes / f"ran-{attempt}-{node}").touch()
if attempt != "1":
    sys.exit(0)
if os.environ["SLURM_PROCID"] == "0":
    time.sleep(600)
job, restart = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_RESTART_COUNT", "0")
folder = Path(os.environ["SLURM_RESILIENCE_RUN"]) / "exit-notes" / f"{job}-{restart}"
folder.mkdir(parents=True)
note = {"node": node, "mode": "exclude", "findings": ["gpu-ecc: 3 uncorrectable errors"]}
(folder / f"{node}.health.json").write_text(json.dumps(note))
sys.exit(1)
"""


@pytest.mark.parametrize("way", ["requeue", "chain"])
def test_the_next_attempt_does_not_get_the_node(jobs: Jobs, way: str) -> None:
    foreign = Foreign(jobs)
    job = foreign.submit(
        f"--continue={way}", "--plain", *foreign.program(AILS_ONCE), requeue=True, ntasks_per_node=1, cpus_per_task=8
    )
    wait_until(
        lambda: foreign.run.journal.exists() and foreign.chain.finished,
        lambda: f"it never finished: {jobs.output(job)[-3000:]}",
        PATIENCE_S,
    )
    first, second = foreign.chain.attempts
    assert first.ended is not None
    assert first.carried_out is not None
    assert (first.ended.cause, len(first.ended.exclude)) == (Cause.NODE_FAILURE, 1)
    [node] = first.ended.exclude
    assert first.carried_out.how.endswith(f", without {node}")
    assert (foreign.folder / f"ran-1-{node}").exists()
    ran = {path.name for path in foreign.folder.glob("ran-2-*")}
    assert len(ran) == 2
    assert f"ran-2-{node}" not in ran
    assert (second.started.job == job) is (way == "requeue")
    told = foreign.ask("status", str(foreign.run.path), "--attempt", "1")
    assert f"node {node} is unhealthy: gpu-ecc: 3 uncorrectable errors" in told.out
