from __future__ import annotations

import pytest

from slurm_resilience.preflight.srun_step import (
    Complaint,
    SrunStep,
    StepPlan,
    complaint_in,
    environment_for,
    last_word,
    srun_words,
)
from slurm_resilience.preflight.way import Way

PROGRAM = ("python", "-m", "node")


def _words(way: Way, environment: dict[str, str] | None = None, **plan: object) -> list[str]:
    return srun_words(StepPlan(way, PROGRAM, **plan), environment or {})  # type: ignore[arg-type]


def test_in_a_job_the_step_shares_its_nodes_and_has_one_task_on_each() -> None:
    words = _words(Way.JOB, nodes=("n1", "n3"), cpus_per_task=8)
    assert words[0] == "srun"
    assert words[-3:] == list(PROGRAM)
    wanted = "--nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n3 --overlap --cpus-per-task=8"
    assert set(wanted.split()) <= set(words)


def test_no_node_that_dies_or_leaves_takes_the_others_with_it() -> None:
    assert {"--kill-on-bad-exit=0", "--wait=0", "--input=all", "--label"} <= set(_words(Way.JOB, nodes=("n1",)))


def test_from_a_login_node_the_time_is_bounded_unless_the_user_has_said_how_long() -> None:
    assert "--time=2" in _words(Way.LOGIN, count="4", time_limit_s=60)
    assert not any(word.startswith("--time") for word in _words(Way.LOGIN, {"SLURM_TIMELIMIT": "5"}, count="4"))
    words = _words(Way.LOGIN, count="4", words=("--time=30", "-p", "gpu"))
    assert words.index("--time=2") < words.index("--time=30")  # srun obeys the last
    assert "--overlap" not in words


def test_what_the_user_says_of_srun_cannot_change_the_layout() -> None:
    words = _words(Way.LOGIN, count="4", words=("--ntasks=64", "-p", "gpu"))
    assert words.index("--ntasks=64") < words.index("--ntasks=4")
    assert {"-p", "gpu"} <= set(words)


@pytest.mark.parametrize("count", ["2-4", None])
def test_where_srun_is_to_choose_how_many_nodes_no_number_of_tasks_is_said(count: str | None) -> None:
    assert not any(word.startswith("--ntasks=") for word in _words(Way.LOGIN, count=count))


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_NTASKS",
        "SLURM_CPUS_PER_TASK",
        "SLURM_LABELIO",
        "SLURM_STDOUTMODE",
        "SLURM_CPU_BIND_LIST",
        "SLURM_STEP_NODELIST",
        "SLURM_DISTRIBUTION",
        "SLURM_HOSTFILE",
    ],
)
def test_srun_is_not_told_of_the_layout_of_the_job_or_of_an_outer_step(name: str) -> None:
    assert environment_for({name: "x", "PATH": "/bin", "SLURM_JOB_ID": "12"}) == {"PATH": "/bin", "SLURM_JOB_ID": "12"}


def test_a_step_is_started_again_on_its_other_nodes() -> None:
    step = SrunStep.of(StepPlan(Way.JOB, PROGRAM, ("n1", "n2", "n3")), {"PATH": "/bin"})
    smaller = step.without({"n2"})
    assert isinstance(smaller, SrunStep)
    assert smaller.nodes == ("n1", "n3")
    assert "--nodelist=n1,n3" in smaller.launches[0].argv
    assert step.without({"n9"}) is None
    assert step.without({"n1", "n2", "n3"}) is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "srun: error: Task launch for StepId=7.0 failed on node n3: Socket timed out on send/recv operation",
            Complaint("n3", "srun could not start its task: Socket timed out on send/recv operation", launch=True),
        ),
        ("srun: error: n2: task 1: Killed", Complaint("n2", "its process ended: Killed", launch=False)),
        (
            "srun: error: n2: tasks 1-3: Exited with exit code 2",
            Complaint("n2", "its process ended: Exited with exit code 2", launch=False),
        ),
        ("srun: error: Node failure on n4", Complaint("n4", "Slurm says that the node has failed", launch=False)),
        ("srun: Job step aborted: Waiting up to 12 seconds for job step to finish.", None),
        ("srun: error: Unable to create step for job 12: Invalid job id", None),
    ],
)
def test_srun_names_a_node_and_what_is_wrong_with_it(line: str, complaint: Complaint | None) -> None:
    assert complaint_in(line) == complaint


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], None),
        (["srun: job 12 queued and waiting for resources"], "srun: job 12 queued and waiting for resources"),
        (["srun: error: Invalid partition", "srun: bye"], "Invalid partition"),
    ],
)
def test_an_error_is_its_last_word_where_there_is_one(lines: list[str], said: str | None) -> None:
    assert last_word(lines) == said
