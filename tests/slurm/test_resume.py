"""`slurm-resilience resume` where everything of an attempt was killed, so that nobody could queue the job again."""

from __future__ import annotations

import json
import os
import signal

import pytest

from slurm_resilience.manifest.records import Cause
from tests.slurm.foreign import LISTENER, Foreign
from tests.slurm.jobs import PATIENCE_S, Jobs, leftovers, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)


def kill_everything_that_could_requeue(foreign: Foreign) -> None:
    """Supervisor and agents; the supervisor is stopped first, so that it can't see the agents die."""
    supervisor = json.loads(foreign.run.lease.read_bytes())["pid"]
    wait_until(lambda: len(foreign.run.agent_records(1)) == 2, "not both agents have told who they are", PATIENCE_S)
    agents = [json.loads(path.read_bytes())["pid"] for path in foreign.run.agent_records(1)]
    os.kill(supervisor, signal.SIGSTOP)
    for pid in (*agents, supervisor):
        os.kill(pid, signal.SIGKILL)


def test_what_everybodys_death_left_undone_is_finished_by_hand_and_once(jobs: Jobs) -> None:
    foreign = Foreign(jobs)
    run = str(foreign.run.path)
    job = foreign.submit("--plain", *foreign.program(LISTENER), requeue=True)
    foreign.wait_noted("started-0-0", "started-0-1")

    refused = foreign.ask("resume", run)
    assert refused.code == 79
    assert "belongs to a live attempt" in refused.err
    assert "Traceback" not in refused.err

    kill_everything_that_could_requeue(foreign)
    jobs.wait_end(job)
    wait_until(lambda: leftovers(foreign.marker) == [], "something of the attempt lives on", PATIENCE_S)
    assert foreign.causes == [None]

    would = foreign.ask("resume", "--dry-run", run)
    assert would.code == 0, would.err
    assert "would conclude attempt 1" in would.out
    assert foreign.causes == [None]

    done = foreign.ask("resume", run)
    assert done.code == 75, done.err
    assert foreign.causes[0] is Cause.CRASHED
    again = foreign.ask("resume", run)
    assert again.code == 75, again.err
    assert f"job {job} has been queued again" in again.out

    foreign.wait_exit(job, 0)
    assert jobs.show(job)["Restarts"] == "1"
    assert foreign.causes == [Cause.CRASHED, Cause.FINISHED]
    last = foreign.ask("resume", run)
    assert last.code == 0
    assert "is finished: nothing to do" in last.out
    assert jobs.state(job) == "COMPLETED"
