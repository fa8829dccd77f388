"""What every SlurmClient must do: the fake, the recorded answers of a real Slurm, and a real Slurm.

Each promise is a function of a scene, so that it can also be recorded (tests/recorded/record_client.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from slurm_resilience.errors import SlurmRejected, SlurmUnavailable
from slurm_resilience.slurm.client import JobRef, JobState
from tests.contract import slurm_changes_contract
from tests.contract.slurm_changes_contract import TOKEN, record_of
from tests.contract.slurm_scene import GRACE_S, HOSTILE_NAME, SlurmScene


def _is_queued_again(scene: SlurmScene, job: JobRef) -> None:
    scene.settled(job)
    record = record_of(scene, job)
    assert (record.state, record.restarts, record.completing, record.held) == (JobState.PENDING, 1, False, False)


def a_running_job_is_seen_with_its_place_and_its_times(scene: SlurmScene) -> None:
    record = record_of(scene, scene.running())
    assert (record.state, record.completing, record.held) == (JobState.RUNNING, False, False)
    assert (record.restarts, record.requeue, record.batch) == (0, True, True)
    assert record.start_s is not None
    assert record.end_s is None or record.end_s > record.start_s
    assert record.preempted_s is None
    assert record.partition == "low"
    assert record.nodes
    assert record.batch_host


def a_name_cannot_pretend_to_be_a_state(scene: SlurmScene) -> None:
    record = record_of(scene, scene.running(name=HOSTILE_NAME))
    assert (record.state, record.restarts) == (JobState.RUNNING, 0)


def an_unknown_job_is_none_and_cannot_be_queued(scene: SlurmScene) -> None:
    job = scene.unknown()
    assert scene.client.job(job) is None
    with pytest.raises(SlurmRejected):
        scene.client.requeue(job)


def a_running_job_is_queued_again_once(scene: SlurmScene) -> None:
    job = scene.running()
    scene.client.requeue(job)
    with pytest.raises(SlurmRejected):
        scene.client.requeue(job)
    assert record_of(scene, job).restarts == 1
    _is_queued_again(scene, job)


def a_waiting_job_is_not_queued_again(scene: SlurmScene) -> None:
    job = scene.waiting()
    record = record_of(scene, job)
    assert (record.state, record.held, record.restarts) == (JobState.PENDING, False, 0)
    with pytest.raises(SlurmRejected):
        scene.client.requeue(job)
    assert record_of(scene, job).restarts == 0


def a_held_job_is_seen_to_be_held(scene: SlurmScene) -> None:
    record = record_of(scene, scene.held())
    assert (record.state, record.held) == (JobState.PENDING, True)


def a_job_that_was_submitted_with_no_requeue_says_so_and_is_refused(scene: SlurmScene) -> None:
    job = scene.running(requeue=False)
    assert not record_of(scene, job).requeue
    with pytest.raises(SlurmRejected):
        scene.client.requeue(job)
    record = record_of(scene, job)
    assert (record.state, record.restarts) == (JobState.RUNNING, 0)


def a_completed_job_could_be_queued_again(scene: SlurmScene) -> None:
    """Slurm doesn't keep anybody from running a finished training again: that is for us to do."""
    job = scene.ended(0)
    record = record_of(scene, job)
    assert (record.state, record.exit_code, record.exit_signal) == (JobState.COMPLETED, 0, 0)
    scene.client.requeue(job)
    _is_queued_again(scene, job)


def a_failed_job_tells_its_code_and_its_signal(scene: SlurmScene) -> None:
    record = record_of(scene, scene.ended(3))
    assert (record.state, record.exit_code, record.exit_signal) == (JobState.FAILED, 3, 0)
    record = record_of(scene, scene.killed())
    assert (record.state, record.exit_signal) == (JobState.FAILED, 9)


def a_cancelled_job_could_be_queued_again(scene: SlurmScene) -> None:
    """Nor does it protect the user's word."""
    job = scene.cancelled()
    record = record_of(scene, job)
    assert (record.state, record.completing, record.restarts) == (JobState.CANCELLED, False, 0)
    scene.client.requeue(job)
    _is_queued_again(scene, job)


def of_an_array_only_the_element_that_is_named_is_queued_again(scene: SlurmScene) -> None:
    first, last = scene.array()
    scene.client.requeue(last)
    _is_queued_again(scene, last)
    record = record_of(scene, first)
    assert (record.state, record.restarts) == (JobState.RUNNING, 0)


def a_preempted_job_runs_on_until_its_grace_is_over(scene: SlurmScene) -> None:
    record = record_of(scene, scene.preempted())
    assert (record.state, record.completing, record.restarts) == (JobState.RUNNING, False, 0)
    assert record.preempted_s is not None
    assert record.end_s == record.preempted_s + GRACE_S


def the_configuration_is_the_clusters(scene: SlurmScene) -> None:
    configuration = scene.client.configuration()
    assert configuration.kill_wait_s == scene.kill_wait_s
    assert re.match(r"\d+\.\d+", configuration.version)
    assert configuration.cluster
    assert configuration.job_requeue
    assert configuration.preempt_mode == "REQUEUE"
    assert configuration.proctrack.startswith("proctrack/")
    assert configuration.over_time_limit_s == 0
    assert configuration.requeue_exit == ()
    assert configuration.requeue_exit_hold == ()
    assert configuration.preempt_type == "preempt/partition_prio"
    assert not configuration.user_signal_first
    assert configuration.requeue_delay_s >= 6


def a_partitions_grace_time_is_told_and_an_unknown_partition_refused(scene: SlurmScene) -> None:
    low = scene.client.partition("low")
    assert (low.name, low.grace_time_s, low.preempt_mode) == ("low", GRACE_S, "REQUEUE")
    assert (low.over_time_limit_s, low.max_time_s) == (None, None)
    assert scene.client.partition("high").grace_time_s == 0
    with pytest.raises(SlurmRejected):
        scene.client.partition("nowhere")


def a_silent_controller_is_unavailable_and_has_done_nothing(scene: SlurmScene) -> None:
    job = scene.running()

    def ask() -> None:
        with pytest.raises(SlurmUnavailable):
            scene.client.job(job)
        with pytest.raises(SlurmUnavailable):
            scene.client.requeue(job)

    scene.while_silent(ask)
    record = record_of(scene, job)
    assert (record.state, record.restarts) == (JobState.RUNNING, 0)


def a_silent_controller_is_unavailable_to_every_verb(scene: SlurmScene) -> None:
    job, held = scene.running(), scene.held()
    client = scene.client
    submission = scene.submission(f"--comment={TOKEN}")
    node = scene.node_names[0]
    before = {record.job: record for record in client.my_jobs()}
    assert client.answers()

    def ask() -> None:
        client = scene.client
        questions: tuple[Callable[[], object], ...] = (
            client.my_jobs,
            client.configuration,
            lambda: client.lives(job),
            lambda: client.partition("low"),
            lambda: client.qos("normal"),
            lambda: client.nodes(node),
            lambda: client.requeue_hold(job),
            lambda: client.cancel(job),
            lambda: client.signal(job, "USR1", to="steps"),
            lambda: client.exclude_nodes(held, [node]),
            lambda: client.start_now(held),
            lambda: client.depend_on(held, f"afterany:{job}"),
            lambda: client.may_requeue(job, False),
            lambda: client.batch_script(job),
            lambda: client.asked_for(job),
            lambda: client.submit(submission),
        )
        for question in questions:
            with pytest.raises(SlurmUnavailable):
                question()
        assert not client.answers()

    scene.while_silent(ask, hasty=True)
    assert scene.client.answers()
    after = {record.job: record for record in scene.client.my_jobs()}
    assert (after[job].state, after[job].requeue, after[job].restarts) == (JobState.RUNNING, True, 0)
    assert (after[held].state, after[held].dependency) == (JobState.PENDING, "")
    assert set(before) <= set(after)


PROMISES: tuple[Callable[[SlurmScene], None], ...] = (
    *slurm_changes_contract.PROMISES,
    a_running_job_is_seen_with_its_place_and_its_times,
    a_name_cannot_pretend_to_be_a_state,
    an_unknown_job_is_none_and_cannot_be_queued,
    a_running_job_is_queued_again_once,
    a_waiting_job_is_not_queued_again,
    a_held_job_is_seen_to_be_held,
    a_job_that_was_submitted_with_no_requeue_says_so_and_is_refused,
    a_completed_job_could_be_queued_again,
    a_failed_job_tells_its_code_and_its_signal,
    a_cancelled_job_could_be_queued_again,
    of_an_array_only_the_element_that_is_named_is_queued_again,
    a_preempted_job_runs_on_until_its_grace_is_over,
    the_configuration_is_the_clusters,
    a_partitions_grace_time_is_told_and_an_unknown_partition_refused,
    a_silent_controller_is_unavailable_and_has_done_nothing,
    a_silent_controller_is_unavailable_to_every_verb,
)
