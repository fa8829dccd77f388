"""What follows from where srun-resilient was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import Way
from slurm_resilience.slurm.facts import JobFacts, job_facts
from slurm_resilience.supervisor.surroundings import (
    Mode,
    choose_mode,
    choose_shape,
    default_run_directory,
    way_on,
)
from tests.unit.supervisor.requests import request

BATCH = {
    "SLURM_JOB_ID": "7",
    "ENVIRONMENT": "BATCH",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NAME": "gpt",
    "SLURM_SUBMIT_DIR": "/home/u",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
}


def facts(**more: str) -> JobFacts:
    found = job_facts(BATCH | more)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "mode", "environment", "srun", "expected"),
    [
        ("python t.py", "auto", BATCH, True, Mode.BATCH),
        ("python t.py", "auto", {"SLURM_JOB_ID": "7"}, True, Mode.ALLOCATION),
        ("python t.py", "auto", {}, True, Mode.LOCAL),
        ("-N2 python t.py", "auto", {}, True, Mode.LOGIN),
        ("-N2 python t.py", "auto", {}, False, Mode.LOCAL),
        ("python t.py", "slurm", {}, True, Mode.LOGIN),
        ("python t.py", "local", BATCH, True, Mode.LOCAL),
    ],
)
def test_the_mode_follows_from_the_job_srun_and_the_users_word(
    words: str, mode: str, environment: dict[str, str], srun: bool, expected: Mode
) -> None:
    assert choose_mode(request(words, mode=mode), job_facts(environment), srun_found=srun) is expected


@pytest.mark.parametrize(("mode", "environment"), [("slurm", {}), ("auto", BATCH)])
def test_slurm_without_srun_is_refused(mode: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no srun"):
        choose_mode(request("python t.py", mode=mode), job_facts(environment), srun_found=False)


@pytest.mark.parametrize(
    ("more", "words", "expected"),
    [
        ({}, "python t.py", "/home/u/runs/gpt"),
        ({"SLURM_JOB_NAME": "wrap"}, "python dir/train.py", "/home/u/runs/train"),
        ({"SLURM_JOB_NAME": "a/b"}, "python t.py", "/home/u/runs/a_b"),
        ({"SLURM_JOB_NAME": ".."}, "python t.py", "/home/u/runs/run"),
        ({"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "3"}, "python t.py", "/home/u/runs/gpt/3"),
        ({}, "--job-name=other python t.py", "/home/u/runs/other"),
    ],
)
def test_the_run_directory_is_named_after_the_job_or_else_the_script(
    more: dict[str, str], words: str, expected: str
) -> None:
    assert default_run_directory(request(words), facts(**more), Path("/elsewhere")) == Path(expected)


@pytest.mark.parametrize(
    ("words", "nproc", "more", "shape"),
    [
        ("python t.py", None, {}, (2, 1)),
        ("python t.py", "4", {}, (2, 4)),
        ("torchrun --nproc-per-node=3 t.py", None, {}, (2, 3)),
        ("torchrun --nproc-per-node=gpu t.py", None, {}, (2, "gpu")),
        ("python t.py", None, {"SLURM_GPUS_ON_NODE": "8"}, (2, 8)),
        ("python t.py", None, {"SLURM_NTASKS_PER_NODE": "2"}, (2, 2)),
        ("--ntasks-per-node=5 python t.py", None, {}, (2, 5)),
        ("-N1 python t.py", None, {}, (1, 1)),
        ("torchrun --nnodes=1 t.py", None, {}, (1, 1)),
        ("torchrun --nnodes=$SLURM_NNODES t.py", None, {}, (2, 1)),
        ("torchrun --nnodes=1:2 t.py", None, {}, (1, 1)),
    ],
)
def test_nodes_and_ranks_come_from_the_users_word_before_the_jobs(
    words: str, nproc: str | None, more: dict[str, str], shape: tuple[int, int | str]
) -> None:
    chosen = choose_shape(request(words, nproc=nproc), facts(**more), Mode.BATCH)
    assert (chosen.nodes, chosen.nproc_per_node) == shape


@pytest.mark.parametrize("words", ["-N3 python t.py", "torchrun --nnodes=3 t.py"])
def test_more_nodes_than_the_job_has_are_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match="has 2 nodes"):
        choose_shape(request(words), facts(), Mode.BATCH)


def test_a_number_of_ranks_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="many"):
        choose_shape(request("python t.py", nproc="many"), facts(), Mode.BATCH)


@pytest.mark.parametrize(
    ("mode", "cause", "may_requeue", "way"),
    [
        (Mode.BATCH, Cause.PREEMPTED, True, Way.REQUEUE),
        (Mode.BATCH, Cause.CRASHED, False, Way.NONE),
        (Mode.LOCAL, Cause.CRASHED, False, Way.IN_PLACE),
        (Mode.LOCAL, Cause.WARNED, False, Way.NONE),
        (Mode.ALLOCATION, Cause.CRASHED, False, Way.IN_PLACE),
        (Mode.ALLOCATION, Cause.TIME_LIMIT, False, Way.NONE),
        (Mode.LOGIN, Cause.PREEMPTED, False, Way.NONE),
        (Mode.LOGIN, Cause.CRASHED, False, Way.IN_PLACE),
    ],
)
def test_how_another_attempt_can_follow(mode: Mode, cause: Cause, may_requeue: bool, way: Way) -> None:
    assert way_on(mode, cause, may_requeue=may_requeue) is way
