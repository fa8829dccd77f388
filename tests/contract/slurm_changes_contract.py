"""What every SlurmClient must do when jobs are queued, found, changed, signalled and cancelled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_resilience.errors import SlurmRejected
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from tests.contract.slurm_scene import SCRIPT, SHELL_SIGNALLED, STEP_SIGNALLED, SlurmScene

TOKEN = "slurm-resilience:0123"
HOSTILE_COMMENT = f"first\n9999999   PD  PENDING\n\ttab  ünï☃ {'x' * 500} {TOKEN}"


def record_of(scene: SlurmScene, job: JobRef) -> JobRecord:
    record = scene.client.job(job)
    assert record is not None
    assert record.job == job
    return record


def every_job_of_mine_is_listed_and_an_array_by_its_elements(scene: SlurmScene) -> None:
    running, (first, last), ended = scene.running(), scene.array(), scene.ended(3)
    listed = {record.job: record for record in scene.client.my_jobs()}
    assert {running, first, last, ended} <= set(listed)
    assert [listed[job] for job in (running, first, last)] == [scene.client.job(job) for job in (running, first, last)]
    assert (listed[ended].state, listed[ended].exit_code) == (JobState.FAILED, 3)


def a_job_is_found_by_the_token_in_its_comment_whatever_else_is_there(scene: SlurmScene) -> None:
    other = scene.held()
    hostile = f"--job-name=a\nb {'n' * 500}"
    job = scene.client.submit(scene.submission("--hold", hostile, f"--comment={HOSTILE_COMMENT}"))
    listed = {record.job: record for record in scene.client.my_jobs()}
    assert [found for found, record in listed.items() if TOKEN in record.comment.split()] == [job]
    assert listed[job].comment == HOSTILE_COMMENT
    assert listed[job] == record_of(scene, job)
    assert (listed[other].state, listed[other].comment) == (JobState.PENDING, "")


def a_submitted_job_runs_its_script_as_it_was_given(scene: SlurmScene) -> None:
    job = scene.client.submit(scene.submission(f"--comment={TOKEN}"))
    assert scene.client.batch_script(job) == SCRIPT
    scene.started(job)
    record = record_of(scene, job)
    assert (record.state, record.restarts, record.comment) == (JobState.RUNNING, 0, TOKEN)
    assert scene.client.batch_script(job) == SCRIPT


def an_array_of_one_is_told_by_its_element(scene: SlurmScene) -> None:
    job = scene.client.submit(scene.submission("--hold", "--array=3"))
    assert job.endswith("_3")
    assert record_of(scene, job).state is JobState.PENDING
    assert scene.client.batch_script(job) == SCRIPT
    other = scene.held()
    scene.client.depend_on(job, f"afterany:{other}")
    assert _waits_for(scene, job, other)
    assert "--partition=low" in scene.client.asked_for(job)
    scene.client.cancel(job)
    record = scene.client.job(job)
    assert record is None or record.state is JobState.CANCELLED  # 22.05 forgets an element that never started


def a_submission_that_is_refused_queues_nothing(scene: SlurmScene) -> None:
    before = {record.job for record in scene.client.my_jobs()}
    with pytest.raises(SlurmRejected):
        scene.client.submit(scene.submission("--partition=nowhere"))
    assert {record.job for record in scene.client.my_jobs()} == before


def _waits_for(scene: SlurmScene, job: JobRef, other: JobRef) -> bool:
    return f"afterany:{other}(" in record_of(scene, job).dependency


def a_dependency_is_shown_and_can_be_pointed_elsewhere_and_taken_away(scene: SlurmScene) -> None:
    first, second = scene.held(), scene.held()
    job = scene.client.submit(scene.submission(f"--dependency=afterany:{first}"))
    assert _waits_for(scene, job, first)
    assert (record_of(scene, job).state, record_of(scene, job).held) == (JobState.PENDING, False)
    scene.client.depend_on(job, f"afterany:{second}")
    assert _waits_for(scene, job, second)
    assert not _waits_for(scene, job, first)
    scene.client.depend_on(job, "")
    assert record_of(scene, job).dependency == ""
    scene.started(job)


def a_job_that_runs_takes_no_dependency_no_excluded_nodes_and_no_start_time(scene: SlurmScene) -> None:
    job, other = scene.running(), scene.held()
    before = record_of(scene, job)
    with pytest.raises(SlurmRejected):
        scene.client.depend_on(job, f"afterany:{other}")
    with pytest.raises(SlurmRejected):
        scene.client.exclude_nodes(job, [scene.node_names[0]])
    with pytest.raises(SlurmRejected):
        scene.client.start_now(job)
    assert record_of(scene, job) == before
    assert not any(option.startswith("--exclude=") for option in scene.client.asked_for(job))


def excluded_nodes_are_added_to_those_before(scene: SlurmScene) -> None:
    one, two, three, _ = scene.node_names
    job = scene.client.submit(scene.submission("--hold", f"--exclude={one}"))
    scene.client.exclude_nodes(job, [two])
    scene.client.exclude_nodes(job, [three, one])
    scene.client.exclude_nodes(job, [])
    prefix = one[:-1]
    assert f"--exclude={prefix}[1-3]" in scene.client.asked_for(job)


def whether_slurm_may_requeue_a_job_can_be_changed_while_it_runs(scene: SlurmScene) -> None:
    job = scene.running()
    scene.client.may_requeue(job, False)
    assert not record_of(scene, job).requeue
    with pytest.raises(SlurmRejected):
        scene.client.requeue(job)
    scene.client.may_requeue(job, True)
    scene.client.may_requeue(job, True)
    record = record_of(scene, job)
    assert (record.state, record.requeue, record.restarts) == (JobState.RUNNING, True, 0)


def a_job_that_is_requeued_and_held_waits_for_its_user(scene: SlurmScene) -> None:
    job = scene.running()
    scene.client.requeue_hold(job)
    scene.settled(job)
    record = record_of(scene, job)
    assert (record.state, record.held, record.restarts) == (JobState.PENDING, True, 1)
    with pytest.raises(SlurmRejected):
        scene.client.requeue_hold(job)
    assert record_of(scene, job).restarts == 1


def a_requeued_job_can_be_started_at_once(scene: SlurmScene) -> None:
    job = scene.running()
    scene.client.requeue(job)
    scene.settled(job)
    scene.client.start_now(job)
    scene.started(job)
    assert record_of(scene, job).restarts == 1


def a_job_is_cancelled_once_and_again_without_error(scene: SlurmScene) -> None:
    running, held, unknown = scene.running(), scene.held(), scene.unknown()
    for job in (running, held):
        scene.client.cancel(job)
        scene.over(job)
        assert record_of(scene, job).state is JobState.CANCELLED
        scene.client.cancel(job)
        assert record_of(scene, job).state is JobState.CANCELLED
    scene.client.cancel(unknown)
    assert scene.client.job(unknown) is None


def a_signal_reaches_the_steps_or_the_shell_as_asked(scene: SlurmScene) -> None:
    for to, code in (("steps", STEP_SIGNALLED), ("0", STEP_SIGNALLED), ("batch", SHELL_SIGNALLED)):
        job = scene.listening()
        scene.client.signal(job, "USR1", to=to)
        scene.over(job)
        record = record_of(scene, job)
        assert (record.state, record.exit_code, record.exit_signal) == (JobState.FAILED, code, 0)


def what_does_not_run_takes_no_signal(scene: SlurmScene) -> None:
    held, ended = scene.held(), scene.ended(0)
    for job in (held, ended):
        before = record_of(scene, job)
        for to in ("steps", "batch", "0"):
            with pytest.raises(SlurmRejected):
                scene.client.signal(job, "USR1", to=to)
        assert record_of(scene, job) == before


def an_unknown_job_refuses_every_change(scene: SlurmScene) -> None:
    job, other = scene.unknown(), scene.held()
    client = scene.client
    changes: tuple[Callable[[], object], ...] = (
        lambda: client.requeue_hold(job),
        lambda: client.signal(job, "USR1", to="steps"),
        lambda: client.exclude_nodes(job, [scene.node_names[0]]),
        lambda: client.start_now(job),
        lambda: client.depend_on(job, f"afterany:{other}"),
        lambda: client.may_requeue(job, False),
        lambda: client.batch_script(job),
        lambda: client.asked_for(job),
    )
    for change in changes:
        with pytest.raises(SlurmRejected):
            change()
    assert client.job(job) is None


def asking_again_for_what_a_job_asked_for_asks_for_the_same(scene: SlurmScene) -> None:
    name = "--job-name=x JobState=FAILED   MinMemoryNode=1"
    wanted = (
        "--nodes=2",
        "--ntasks=4",
        "--cpus-per-task=2",
        "--time=1:00:00",
        "--mem=1G",
        name,
        "--comment=mine\nand theirs",
        "--output=/tmp/%x-%j.out",
        "--no-requeue",
    )
    job = scene.client.submit(scene.submission("--hold", *wanted))
    first = scene.client.asked_for(job)
    assert {"--partition=low", "--no-requeue", name, "--comment=mine\nand theirs", "--output=/tmp/%x-%j.out"} <= set(
        first
    )
    again = scene.client.submit(scene.submission("--hold", *first))
    assert scene.client.asked_for(again) == first
    forbidden = ("--dependency", "--array", "--begin", "--hold", "--parsable")
    assert not any(option.startswith(forbidden) for option in first)


def nodes_tell_their_state_and_why_they_are_drained(scene: SlurmScene) -> None:
    one, two, *_ = scene.node_names
    prefix = one[:-1]

    def ask() -> None:
        first, second = scene.client.nodes(f"{prefix}[1-2]")
        assert (first.name, second.name) == (one, two)
        assert "DRAIN" in first.states
        assert first.reason == "bad disk State=IDLE\n  second line"
        assert (second.states, second.reason) == (("IDLE",), "")

    scene.while_drained(one, "bad disk State=IDLE\n  second line", ask)


def without_accounting_there_are_no_lives_and_no_qos_and_that_is_said(scene: SlurmScene) -> None:
    job = scene.ended(0)
    accounting = scene.client.configuration().accounting
    assert (scene.client.lives(job) is None) == (not accounting)
    if not accounting:
        assert scene.client.qos("normal") is None


PROMISES: tuple[Callable[[SlurmScene], None], ...] = (
    every_job_of_mine_is_listed_and_an_array_by_its_elements,
    a_job_is_found_by_the_token_in_its_comment_whatever_else_is_there,
    a_submitted_job_runs_its_script_as_it_was_given,
    an_array_of_one_is_told_by_its_element,
    a_submission_that_is_refused_queues_nothing,
    a_dependency_is_shown_and_can_be_pointed_elsewhere_and_taken_away,
    a_job_that_runs_takes_no_dependency_no_excluded_nodes_and_no_start_time,
    excluded_nodes_are_added_to_those_before,
    whether_slurm_may_requeue_a_job_can_be_changed_while_it_runs,
    a_job_that_is_requeued_and_held_waits_for_its_user,
    a_requeued_job_can_be_started_at_once,
    a_job_is_cancelled_once_and_again_without_error,
    a_signal_reaches_the_steps_or_the_shell_as_asked,
    what_does_not_run_takes_no_signal,
    an_unknown_job_refuses_every_change,
    asking_again_for_what_a_job_asked_for_asks_for_the_same,
    nodes_tell_their_state_and_why_they_are_drained,
    without_accounting_there_are_no_lives_and_no_qos_and_that_is_said,
)
