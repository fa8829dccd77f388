from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.errors import (
    EXIT_OWNED,
    ConfigurationError,
    Fenced,
    ManifestDamaged,
    ManifestUnavailable,
    ManifestUnsupported,
    RunOwned,
    SlurmUnavailable,
)
from slurm_resilience.manifest.attempt import begin_attempt, release
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import Owner, process_liveness, read_lease, this_process, write_lease
from slurm_resilience.manifest.records import AttemptEnded, AttemptStarted, Cause, SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from tests.unit.manifest.without_flock import HurriedClock


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    Journal(run).create("test")
    return run


def begin(run: RunDirectory, *, slurm: Liveness | None = None, **changes: Any) -> int:
    def ask(owner: Owner) -> Liveness:
        assert slurm is not None, "Slurm was asked though it need not be"
        return slurm

    told: dict[str, Any] = {
        "mode": "batch",
        "command": ["torchrun", "train.py"],
        "job": "100",
        "restart_count": None,
        "cluster": "c1",
        "nodes": "node[1-2]",
    }
    return begin_attempt(run, liveness_by_slurm=ask, **told | changes)


def started(run: RunDirectory) -> list[int]:
    return [line.record.attempt for line in Journal(run).read() if isinstance(line.record, AttemptStarted)]


def ended(attempt: int) -> AttemptEnded:
    return AttemptEnded(attempt, Cause.CRASHED, "", (), "requeue", "", 1)


def give_to(run: RunDirectory, **changes: Any) -> Owner:
    """The owner of the newest attempt is somebody else."""
    owner = read_lease(run)
    assert owner is not None
    owner = replace(owner, **changes)
    write_lease(run, owner)
    return owner


ELSEWHERE = {"host": "node17"}
DEAD_HERE = {"started_ticks": 1}


def test_the_first_attempt_owns_the_run_and_is_in_the_journal(run: RunDirectory) -> None:
    assert begin(run) == 1
    owner = read_lease(run)
    assert owner is not None
    assert (owner.attempt, owner.pid, owner.job, owner.cluster) == (1, os.getpid(), "100", "c1")
    assert process_liveness(owner) is Liveness.ALIVE
    record = Journal(run).read()[-1].record
    assert record == AttemptStarted(1, "batch", ("torchrun", "train.py"), owner.host, "100", None, "c1", "node[1-2]")


def test_a_run_that_was_never_created_has_no_attempts(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no run in"):
        begin(RunDirectory(tmp_path / "nowhere"))


def test_a_living_owner_is_named_and_how_to_look_is_said(run: RunDirectory) -> None:
    begin(run)
    with pytest.raises(RunOwned) as caught:
        begin(run, slurm=Liveness.GONE)
    sentence = str(caught.value)
    assert caught.value.exit_code == EXIT_OWNED
    for fact in (str(run.path), f"process {os.getpid()} on", "Slurm job 100 (restart 0)", "it is alive", "ps -p"):
        assert fact in sentence
    assert "`scontrol show job 100`" in sentence
    assert started(run) == [1]


TAKEN_OVER, REFUSED = True, False


@pytest.mark.parametrize(
    ("owner", "slurm", "taken_over"),
    [
        (DEAD_HERE, None, TAKEN_OVER),
        (ELSEWHERE, Liveness.GONE, TAKEN_OVER),
        (ELSEWHERE, Liveness.ALIVE, REFUSED),
        (ELSEWHERE, Liveness.UNKNOWN, REFUSED),  # no answer from Slurm is never "gone"
        ({"boot_id": "an earlier one"}, None, TAKEN_OVER),
        ({"pid_namespace": 4711, **DEAD_HERE}, Liveness.UNKNOWN, REFUSED),
        ({"pid_namespace": 4711, **DEAD_HERE}, Liveness.GONE, TAKEN_OVER),
        ({**ELSEWHERE, "job": None}, Liveness.UNKNOWN, REFUSED),
    ],
)
def test_a_run_changes_hands_on_proof_only(
    run: RunDirectory, owner: dict[str, Any], slurm: Liveness | None, taken_over: bool
) -> None:
    begin(run)
    before = give_to(run, **owner)
    if taken_over:
        assert begin(run, slurm=slurm, job="200") == 2
        after = read_lease(run)
        assert after is not None
        assert after.attempt == 2
    else:
        with pytest.raises(RunOwned, match=r"nothing proves that it is gone|it is alive"):
            begin(run, slurm=slurm, job="200")
        assert read_lease(run) == before
        assert started(run) == [1]


@pytest.mark.parametrize(
    ("before", "now", "taken_over"),
    [
        ({}, {"restart_count": 1}, TAKEN_OVER),  # Slurm doesn't count before the first restart
        ({"restart_count": 0}, {"restart_count": 1}, TAKEN_OVER),
        ({"restart_count": 3}, {"restart_count": 4}, TAKEN_OVER),
        ({"restart_count": 3}, {"restart_count": 3}, REFUSED),
        ({"restart_count": 3}, {"restart_count": 2}, REFUSED),
        ({}, {"restart_count": 0}, REFUSED),
        ({"job": "100_1"}, {"job": "100_2", "restart_count": 1}, REFUSED),
        ({"cluster": "c2"}, {"restart_count": 1}, REFUSED),
        ({"job": None}, {"job": None, "restart_count": 1}, REFUSED),
    ],
)
def test_a_job_that_slurm_started_anew_takes_over_from_its_former_life_though_that_still_runs(
    run: RunDirectory, before: dict[str, Any], now: dict[str, Any], taken_over: bool
) -> None:
    begin(run, **before)
    if taken_over:
        assert begin(run, **now) == 2
        with pytest.raises(Fenced):
            Journal(run).append(SaveFailed(1, 5, "late"), fence=1)
    else:
        with pytest.raises(RunOwned):
            begin(run, **now)


def test_an_attempt_whose_end_is_told_owns_nothing(run: RunDirectory) -> None:
    begin(run)
    Journal(run).append(ended(1))
    assert begin(run) == 2


def test_an_attempt_that_let_go_owns_nothing(run: RunDirectory) -> None:
    begin(run)
    release(run, 1)
    assert read_lease(run) is None
    assert begin(run) == 2


def test_letting_go_twice_or_of_what_another_has_changes_nothing(run: RunDirectory) -> None:
    begin(run)
    release(run, 1)
    release(run, 1)
    begin(run)
    release(run, 1)
    owner = read_lease(run)
    assert owner is not None
    assert owner.attempt == 2


def test_a_lease_older_than_the_newest_attempt_is_free_whatever_its_owner_does(run: RunDirectory) -> None:
    """Who began attempt 2 had proof, and died before it could write its own lease."""
    begin(run)
    Journal(run).append(AttemptStarted(2, "batch", (), "host"))
    assert begin(run) == 3


def test_an_unreadable_answer_of_slurm_leaves_the_run_alone(run: RunDirectory) -> None:
    begin(run)
    before = give_to(run, **ELSEWHERE)

    def unavailable(owner: Owner) -> Liveness:
        raise SlurmUnavailable("the controller doesn't answer")

    with pytest.raises(SlurmUnavailable):
        begin_attempt(
            run,
            mode="batch",
            command=[],
            job="200",
            restart_count=None,
            cluster=None,
            nodes=None,
            liveness_by_slurm=unavailable,
        )
    assert read_lease(run) == before
    assert started(run) == [1]


def test_slurm_is_asked_without_the_lock_and_its_word_holds_for_the_owner_it_was_asked_about(
    run: RunDirectory,
) -> None:
    begin(run)
    give_to(run, **ELSEWHERE)
    asked = []

    def changes_hands_meanwhile(owner: Owner) -> Liveness:
        asked.append(owner.attempt)
        if len(asked) == 1:
            assert begin(run, slurm=Liveness.GONE, job="200") == 2  # possible only while nobody holds the lock
            give_to(run, **ELSEWHERE)
            return Liveness.GONE
        return Liveness.UNKNOWN

    with pytest.raises(RunOwned, match="attempt 2"):
        begin_attempt(
            run,
            mode="batch",
            command=[],
            job="300",
            restart_count=None,
            cluster="c1",
            nodes=None,
            liveness_by_slurm=changes_hands_meanwhile,
        )
    assert asked == [1, 2]
    assert started(run) == [1, 2]


def test_of_many_that_take_over_at_once_exactly_one_gets_the_run(run: RunDirectory) -> None:
    begin(run)
    give_to(run, **DEAD_HERE)
    results: list[int | type[Exception]] = []

    def try_it() -> None:
        try:
            results.append(begin(run))
        except RunOwned as error:
            results.append(type(error))

    threads = [threading.Thread(target=try_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == sorted(["2", *[str(RunOwned)] * 5])
    assert started(run) == [1, 2]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", ManifestDamaged),
        (b"[]", ManifestDamaged),
        (b'{"format": 1, "attempt": 1}', ManifestDamaged),
        (b'{"format": 2}', ManifestUnsupported),
    ],
)
def test_a_lease_that_cannot_be_read_is_nobodys_permission(
    run: RunDirectory, content: bytes, error: type[Exception]
) -> None:
    begin(run)
    run.lease.write_bytes(content)
    with pytest.raises(error, match=r"lease\.json"):
        begin(run)
    Journal(run).append(ended(1))
    assert begin(run) == 2  # whoever it named, its end is told


def test_a_lease_that_cannot_be_written_gives_nobody_the_run_and_blocks_nobody(run: RunDirectory) -> None:
    run.lease.mkdir()
    with pytest.raises(ManifestUnavailable, match=r"lease\.json can't be written"):
        begin(run, clock=HurriedClock())
    run.lease.rmdir()
    assert begin(run) == 2


def test_a_lease_that_is_refused_for_a_moment_costs_no_attempt(run: RunDirectory) -> None:
    class Mends(HurriedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            run.lease.rmdir()

    run.lease.mkdir()
    assert begin(run, clock=Mends()) == 1
    owner = read_lease(run)
    assert owner is not None
    assert owner.attempt == 1


def test_the_lease_is_readable_to_a_person(run: RunDirectory) -> None:
    begin(run)
    value = json.loads(run.lease.read_text())
    assert value["format"] == 1
    assert value["job"] == "100"
    assert str(read_lease(run)) == f"attempt 1, process {os.getpid()} on {value['host']}, Slurm job 100 (restart 0)"


def test_attempts_are_numbered_without_a_gap(run: RunDirectory) -> None:
    for number in range(1, 5):
        assert begin(run, restart_count=number) == number
    assert [attempt.number for attempt in Chain.of(Journal(run).read()).attempts] == [1, 2, 3, 4]


def test_an_owner_outside_of_slurm_names_no_job() -> None:
    owner = this_process(attempt=3, job=None, restart_count=None, cluster=None, taken_s=0.0)
    assert str(owner) == f"attempt 3, process {owner.pid} on {owner.host}"
