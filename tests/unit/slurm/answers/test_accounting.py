"""sacct's lines; those of files are real (tests/recorded/VERSION/accounting)."""

from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.accounting import read_lives, read_qos
from slurm_resilience.slurm.client import JobRef, JobState, QosRecord

RECORDED = Path(__file__).parents[3] / "recorded"
of_each_version = pytest.mark.parametrize("version", ["22.05", "24.11"])


def recorded(version: str, name: str) -> tuple[JobRef, str]:
    """The job and what sacct says of it in our columns: the recording has more of them, and the steps too."""
    folder = RECORDED / version / "accounting"
    said = (folder / "command").read_text().split("--format=")[1].strip().split(",")
    chosen = [said.index(column) for column in ("JobID", "State", "ExitCode", "Start", "End", "NodeList", "Reason")]
    rows = [line.split("|") for line in (folder / f"{name}.sacct").read_text().splitlines()]
    jobs = [row for row in rows if "." not in row[0]]
    return JobRef(jobs[0][0]), "".join("|".join(row[at] for at in chosen) + "\n" for row in jobs)


@of_each_version
@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("completed", [JobState.COMPLETED]),
        ("failed-by-signal", [JobState.FAILED]),
        ("time-limit", [JobState.TIMEOUT]),
        ("node-failure-requeued", [JobState.NODE_FAIL, JobState.COMPLETED]),
        ("preempted-no-requeue", [JobState.PREEMPTED]),
        ("requeued-by-hand-twice", [JobState.UNKNOWN, JobState.UNKNOWN, JobState.COMPLETED]),
        ("running.running", [JobState.RUNNING]),
    ],
)
def test_every_life_is_told_oldest_first_and_a_requeue_is_no_cause(
    version: str, name: str, states: list[JobState]
) -> None:
    job, answer = recorded(version, name)
    assert [life.state for life in read_lives(job, answer)] == states


@of_each_version
@pytest.mark.parametrize(
    ("name", "by"), [("cancelled-by-root", 0), ("cancelled-by-user", 65534), ("dependency-never", None)]
)
def test_who_cancelled_it_is_told_where_somebody_did(version: str, name: str, by: int | None) -> None:
    job, answer = recorded(version, name)
    (life,) = read_lives(job, answer)
    assert (life.state, life.cancelled_by) == (JobState.CANCELLED, by)


@of_each_version
def test_a_life_that_never_started_has_no_start_and_no_nodes(version: str) -> None:
    job, answer = recorded(version, "never-started")
    (life,) = read_lives(job, answer)
    assert (life.start_s, life.nodes) == (None, "")
    assert life.end_s is not None


@of_each_version
def test_a_signal_and_a_code_are_told_apart(version: str) -> None:
    job, answer = recorded(version, "failed-by-signal")
    assert [(life.exit_code, life.exit_signal) for life in read_lives(job, answer)] == [(0, 9)]


@of_each_version
def test_of_an_array_only_the_element_is_told(version: str) -> None:
    first, answer = recorded(version, "array")
    element = JobRef(first.replace("_0", "_1"))
    assert [life.exit_code for life in read_lives(element, answer)] == [4]


def test_a_job_that_is_not_listed_has_no_lives() -> None:
    assert read_lives(JobRef("1"), "") == ()


def test_a_line_with_other_columns_is_refused() -> None:
    with pytest.raises(SlurmUnparsable, match="columns"):
        read_lives(JobRef("1"), "1|COMPLETED|0:0\n")


@pytest.mark.parametrize(
    ("answer", "qos"),
    [
        ("normal|00:00:00|cluster\nhigh|00:02:00|requeue\n", QosRecord("high", 120, "requeue")),
        ("high||\n", QosRecord("high", 0, "cluster")),
        ("normal|00:00:00|cluster\n", None),
        ("", None),
    ],
)
def test_a_qos_is_found_by_its_whole_name(answer: str, qos: QosRecord | None) -> None:
    assert read_qos("high", answer) == qos
