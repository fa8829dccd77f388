"""A run that goes on by successors, on a real Slurm: whatever ends an attempt, and whoever dies with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

import pytest

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.jobs import PATIENCE_S, Jobs, leftovers, wait_until
from tests.slurm.linked import Linked

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)


@pytest.fixture
def linked(jobs: Jobs) -> Linked:
    return Linked(jobs)


def test_three_attempts_ended_by_preemption_and_time_are_three_jobs_and_none_is_left(linked: Linked) -> None:
    first = linked.submit_chain(3, "--stop-before-end=40")
    assert linked.wait_life(1) == first
    second = linked.wait_successor()
    linked.jobs.ask("scontrol", "update", f"JobId={second}", "TimeLimit=1")
    assert linked.jobs.show(second)["Dependency"] == f"afterany:{first}(unfulfilled)"
    wait_until(lambda: linked.jobs.show(first)["Requeue"] == "0", "Slurm may still requeue the first job", PATIENCE_S)
    linked.jobs.preempt(first)
    assert linked.wait_life(2) == second
    third = linked.wait_successor(2)
    assert linked.wait_life(3) == third
    linked.wait_ends(Cause.PREEMPTED, Cause.TIME_LIMIT, Cause.FINISHED)
    linked.wait_exit(third, 0)
    assert [linked.jobs.show(job)["Restarts"] for job in (first, second, third)] == ["0", "0", "0"]
    assert linked.waiting() == []
    _check_inheritance(linked, first, second)
    linked.check_nothing_left()


def _check_inheritance(linked: Linked, first: str, second: str) -> None:
    """Of what the first job's Slurm and the first script put into their environment, the second has nothing."""
    before, after = linked.inherited(first), linked.inherited(second)
    assert not {"SLURM_CPU_BIND", "SLURM_MEM_PER_CPU", "SBATCH_ACCOUNT", "SRUN_LEAK", "PMIX_LEAK", "RANK"} & set(after)
    slurms = {name for name in after if name.startswith(("SLURM", "SBATCH", "SRUN", "PMI"))}
    assert slurms - set(before) == {"SLURM_RESILIENCE_SUCCESSOR_OF", "SLURM_JOB_DEPENDENCY"} & slurms
    assert after["SLURM_RESILIENCE_SUCCESSOR_OF"] == f"1:{first}"
    assert after["SLURM_JOB_ID"] == second
    assert after["SLURM_CONF"] == before["SLURM_CONF"]
    assert after["TEST_MARKER"] == before["TEST_MARKER"]


def test_the_run_goes_on_when_everything_of_an_attempt_is_killed(linked: Linked) -> None:
    linked.submit_chain(2)
    linked.wait_life(1)
    second = linked.wait_successor()
    supervisor = json.loads(linked.run.lease.read_bytes())["pid"]
    os.kill(supervisor, signal.SIGSTOP)  # so that it can't see the others die
    for process in leftovers(linked.marker):
        if process.pid != supervisor:
            with contextlib.suppress(ProcessLookupError):  # a command of theirs has just ended
                os.kill(process.pid, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    linked.wait_exit(second, 0)
    assert linked.causes[-1] is Cause.FINISHED
    first = linked.ended(1)
    assert first.ended is not None
    assert first.ended.decision == "successor"
    assert first.carried_out is not None
    assert first.carried_out.how == f"job {second} has started"
    assert linked.waiting() == []


def test_a_killed_supervisor_has_its_attempt_told_by_its_deputy_and_nothing_is_requeued(linked: Linked) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    second = linked.wait_successor()
    os.kill(json.loads(linked.run.lease.read_bytes())["pid"], signal.SIGKILL)
    linked.wait_exit(second, 0)
    linked.wait_ends(Cause.SUPERVISOR_DIED, Cause.FINISHED)
    assert linked.jobs.show(job)["Restarts"] == "0"
    assert linked.waiting() == []


def test_who_cancels_the_attempt_ends_the_run_and_its_successor(linked: Linked) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    successor = linked.wait_successor()
    linked.jobs.cancel(job)
    linked.wait_ends(Cause.CANCELLED)
    assert linked.jobs.wait_end(successor) == "CANCELLED"
    assert linked.waiting() == []
    assert not (linked.folder / "life-2").exists()


def test_a_cancelled_attempt_that_could_not_say_so_is_not_followed(linked: Linked) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    successor = linked.wait_successor()
    with Journal(linked.run).writing():  # it is killed before it gets the lock
        linked.jobs.cancel(job)
        linked.jobs.wait_end(job)
    linked.wait_exit(successor, 76)
    linked.wait_ends(Cause.CANCELLED)
    assert linked.waiting() == []
    assert not (linked.folder / "life-2").exists()


def test_a_run_that_finishes_cancels_its_successor(linked: Linked) -> None:
    job = linked.submit_chain(1)
    linked.wait_exit(job, 0)
    linked.wait_ends(Cause.FINISHED)
    assert linked.jobs.wait_end(linked.wait_successor()) == "CANCELLED"
    assert linked.waiting() == []


def test_a_successor_that_is_cancelled_while_it_waits_is_not_queued_again(linked: Linked) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    successor = linked.wait_successor()
    linked.jobs.cancel(successor)
    linked.jobs.ask("scancel", "-s", "USR1", job)
    linked.wait_exit(job, 76)
    ended = linked.ended(1).ended
    assert ended is not None
    assert f"its successor, job {successor}, was cancelled" in ended.decision_reason
    assert linked.waiting() == []


def test_elements_of_an_array_are_followed_each_by_its_own(linked: Linked) -> None:
    where = f"{linked.folder}/$SLURM_ARRAY_TASK_ID"
    for task in "01":
        (linked.folder / task).mkdir()
    job = linked.submit_chain(2, run=where, array="0-1")
    successors = []
    for task in "01":
        linked.wait_life(1, f"{task}/")
        successors.append(linked.wait_successor(run=RunDirectory(linked.folder / task / "run")))
    assert [successor.partition("_")[2] for successor in successors] == ["0", "1"]
    assert linked.jobs.show(successors[1])["Dependency"] == f"afterany:{job}_1(unfulfilled)"
    for task in "10":  # the last element's own id is the array's
        linked.jobs.ask("scancel", "-s", "USR1", f"{job}_{task}")
        linked.wait_life(2, f"{task}/")
    for task, successor in zip("01", successors, strict=True):
        linked.jobs.wait_end(successor)
        chain = Chain.of(Journal(RunDirectory(linked.folder / task / "run")).read())
        assert [attempt.started.job for attempt in chain.attempts] == [f"{job}_{task}", successor]
        assert chain.finished
    assert linked.waiting() == []


def test_singleton_waits_for_the_job_of_its_name(linked: Linked) -> None:
    job = linked.submit_chain(2, "--chain-dependency=singleton")
    linked.wait_life(1)
    successor = linked.wait_successor()
    assert linked.jobs.show(successor)["Dependency"] == "singleton(unfulfilled)"
    linked.jobs.ask("scancel", "-s", "USR1", job)
    linked.wait_exit(successor, 0)
    assert linked.causes == [Cause.WARNED, Cause.FINISHED]


def test_a_successor_whose_dependency_was_taken_away_leaves_the_owner_alone_and_another_is_queued(
    linked: Linked,
) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    successor = linked.wait_successor()
    linked.jobs.ask("scontrol", "update", f"JobId={successor}", "Dependency=")
    linked.wait_exit(successor, 79)
    assert len(linked.attempts) == 1
    linked.jobs.ask("scancel", "-s", "USR1", job)
    second = linked.wait_life(2)
    assert second not in (job, successor)
    linked.wait_exit(second, 0)
    assert linked.causes == [Cause.WARNED, Cause.FINISHED]


def test_a_preemption_without_any_grace_is_no_cancellation(linked: Linked) -> None:
    """To a job that Slurm may not requeue it looks like one, but for the time of the preemption."""
    first = linked.submit_chain(2)
    linked.wait_life(1)
    second = linked.wait_successor()
    wait_until(lambda: linked.jobs.show(first)["Requeue"] == "0", "Slurm may still requeue the first job", PATIENCE_S)
    linked.jobs.ask("scontrol", "update", "PartitionName=low", "GraceTime=0")
    try:
        linked.jobs.preempt(first)
        linked.wait_exit(second, 0)
    finally:
        linked.jobs.ask("scontrol", "update", "PartitionName=low", f"GraceTime={linked.jobs.cluster.spec.grace_s}")
    assert linked.causes == [Cause.PREEMPTED, Cause.FINISHED]


def test_a_job_that_a_person_requeues_keeps_the_successor_it_has(linked: Linked) -> None:
    job = linked.submit_chain(3)
    linked.wait_life(1)
    successor = linked.wait_successor()
    wait_until(lambda: linked.jobs.show(job)["Requeue"] == "0", "Slurm may still requeue the job", PATIENCE_S)
    assert linked.jobs.requeue(job).code != 0
    linked.jobs.ask("scontrol", "update", f"JobId={job}", "Requeue=1")
    assert linked.jobs.requeue(job).code == 0
    assert linked.wait_life(2) == job
    assert linked.wait_successor(2) == successor
    assert linked.waiting() == [successor]
    linked.jobs.ask("scancel", "-s", "USR1", job)
    assert linked.wait_life(3) == successor
    linked.wait_ends(Cause.REQUEUED_BY_HAND, Cause.WARNED, Cause.FINISHED)


def test_resume_says_where_the_successor_is_and_queues_one_that_is_missing(linked: Linked) -> None:
    job = linked.submit_chain(2)
    linked.wait_life(1)
    successor = linked.wait_successor()
    linked.jobs.ask("scontrol", "hold", successor)
    linked.jobs.ask("scancel", "-s", "USR1", job)
    linked.wait_exit(job, 75)
    told = linked.ask("resume", str(linked.run.path))
    assert told.code == 75, told.err
    assert f"job {successor} is queued and goes on" in told.out
    assert linked.waiting() == [successor]
    linked.jobs.ask("scontrol", "release", successor)
    linked.wait_exit(successor, 0)


def test_outside_a_batch_script_a_chain_is_refused_in_one_sentence(linked: Linked) -> None:
    done = linked.here("--continue=chain", "--plain", sys.executable, "-c", "pass")
    assert done.code == 78
    assert done.err.count("\n") == 1
    assert "--continue=chain" in done.err
