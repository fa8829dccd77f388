"""srun-resilient before programs that know nothing of it, from wherever a user may start them."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from tests.slurm.foreign import FAILS_ONCE, LISTENER, Foreign
from tests.slurm.jobs import Jobs

linuxproc = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
CRASHES = ("bash", "-c", "exit 3")


@pytest.fixture
def foreign(jobs: Jobs) -> Foreign:
    return Foreign(jobs)


def test_a_plain_command_hears_the_preemption_once_a_task_and_finishes_when_it_is_started_again(
    foreign: Foreign,
) -> None:
    job = foreign.submit("--plain", *foreign.program(LISTENER), requeue=True)
    foreign.wait_noted("started-0-0", "started-0-1")
    foreign.jobs.preempt(job)
    foreign.wait_exit(job, 0)
    assert [foreign.noted(f"heard-0-{task}") for task in (0, 1)] == ["SIGTERM", "SIGTERM"]
    assert foreign.causes == [Cause.PREEMPTED, Cause.FINISHED]
    assert foreign.jobs.show(job)["Restarts"] == "1"
    foreign.check_nothing_left()


def test_a_forwarded_signal_reaches_the_ranks_and_not_what_they_started(foreign: Foreign) -> None:
    job = foreign.submit("--forward-signal=USR1", "--nproc-per-node=1", *foreign.program(LISTENER), requeue=True)
    foreign.wait_noted("started-0-0", "started-0-1")
    foreign.jobs.preempt(job)
    foreign.wait_exit(job, 0)
    assert [foreign.noted(f"heard-0-{rank}") for rank in (0, 1)] == ["SIGUSR1", "SIGUSR1"]
    assert [foreign.noted(f"child-0-{rank}") for rank in (0, 1)] == ["alive", "alive"]
    assert foreign.causes == [Cause.PREEMPTED, Cause.FINISHED]
    foreign.check_nothing_left()


@linuxproc
def test_every_task_of_the_jobs_layout_is_waited_for(foreign: Foreign) -> None:
    job = foreign.submit("bash", "-c", "exit 0", ntasks_per_node=2)
    foreign.wait_exit(job, 0)
    assert len(foreign.run.agent_records(1)) == 4
    assert foreign.chain.finished


@linuxproc
def test_a_command_that_always_crashes_is_given_up_with_the_reason(foreign: Foreign) -> None:
    job = foreign.submit(*CRASHES, requeue=True)
    foreign.wait_exit(job, 76)
    assert foreign.causes == [Cause.CRASHED, Cause.CRASHED]
    assert "2 attempts in a row gained no step" in foreign.ask("status", str(foreign.run.path)).out


@linuxproc
def test_a_job_that_slurm_may_not_requeue_is_warned_of_and_ends(foreign: Foreign) -> None:
    job = foreign.submit("--plain", *foreign.program(LISTENER), no_requeue=True)
    foreign.wait_noted("started-0-0", "started-0-1")
    foreign.jobs.ask("scancel", "--signal=TERM", job)
    foreign.wait_exit(job, 76)
    output = foreign.jobs.output(job)
    assert "warning: this job was submitted with --no-requeue" in output
    assert "start it again to go on" in output
    assert foreign.jobs.show(job)["Restarts"] == "0"


@linuxproc
def test_a_crash_that_nobody_can_follow_up_leaves_with_the_commands_own_code(foreign: Foreign) -> None:
    job = foreign.submit("--no-requeue", *CRASHES)
    foreign.wait_exit(job, 3)
    assert len(foreign.attempts) == 1


@linuxproc
def test_a_wrapped_command_is_a_batch_script_too(foreign: Foreign) -> None:
    job = foreign.wrap("bash", "-c", "exit 0", options=("-N2",))
    foreign.wait_exit(job, 0)
    assert f"attempt 1 of run {foreign.folder}/runs/bash (batch)" in foreign.jobs.output(job)


@linuxproc
def test_in_an_interactive_allocation_a_crash_is_followed_by_another_attempt_at_once(foreign: Foreign) -> None:
    ended = foreign.here("--plain", *foreign.program(FAILS_ONCE), before=("salloc", "-N2"))
    assert ended.code == 0, ended.err
    assert foreign.causes == [Cause.CRASHED, Cause.FINISHED]
    assert {attempt.started.mode for attempt in foreign.attempts} == {"allocation"}


@linuxproc
def test_in_an_interactive_allocation_a_command_that_always_crashes_is_given_up(foreign: Foreign) -> None:
    assert foreign.here(*CRASHES, before=("salloc", "-N1")).code == 76
    assert len(foreign.attempts) == 2


@linuxproc
def test_from_a_login_node_srun_gets_an_allocation_for_every_attempt(foreign: Foreign) -> None:
    ended = foreign.here("-N2", "--plain", *foreign.program(FAILS_ONCE))
    assert ended.code == 0, ended.err
    assert foreign.causes == [Cause.CRASHED, Cause.FINISHED]
    assert {attempt.started.mode for attempt in foreign.attempts} == {"login"}


@linuxproc
def test_inside_a_step_it_is_refused_by_one_sentence(foreign: Foreign) -> None:
    refused = foreign.here("bash", "-c", "exit 0", before=("srun", "-n1"))
    assert refused.code == 78
    [sentence] = [line for line in refused.err.splitlines() if line.startswith("srun-resilient:")]
    assert "put it in srun's place, not behind it" in sentence
    assert "Traceback" not in refused.err
    assert not foreign.run.path.exists()


@linuxproc
def test_two_trainings_do_not_share_a_directory_that_nobody_named(foreign: Foreign) -> None:
    first = foreign.wrap("bash", "-c", "exit 0", options=("--job-name=foreign",))
    foreign.wait_exit(first, 0)
    second = foreign.wrap("bash", "-c", "echo another", options=("--job-name=foreign",))
    foreign.wait_exit(second, 78)
    output = foreign.jobs.output(second)
    assert f"run {foreign.folder}/runs/foreign was begun by another command" in output
    assert "name this one's directory with --run-dir" in output
    assert "Traceback" not in output


@linuxproc
def test_a_dry_run_prints_the_line_and_the_ladder_and_writes_nothing(foreign: Foreign) -> None:
    before = sorted(foreign.folder.iterdir())
    told = foreign.here("--dry-run", "--nproc-per-node=gpu", "python", "train.py", before=("salloc", "-N2"))
    assert told.code == 0, told.err
    line, *rest = told.out.splitlines()
    assert line.startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0")
    text = "\n".join(rest)
    assert f"run directory: {foreign.run.path}, attempt 1, mode allocation" in text
    for rung in ("KillWait      10.0 s", "GraceTime      15.0 s", "stop after SIGTERM      22.0 s"):
        assert rung in text
    assert sorted(foreign.folder.iterdir()) == before
