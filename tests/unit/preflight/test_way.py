from __future__ import annotations

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.preflight.way import Surroundings, Way, fewest, job_of, surroundings

JOB = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_CPUS_PER_NODE": "8(x3),4"}
STEP = {**JOB, "SLURM_STEP_ID": "3", "SLURM_STEP_NODELIST": "n[2-3]", "SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("environment", "asked", "expected"),
    [
        pytest.param({}, {}, Surroundings(Way.LOCAL), id="nothing"),
        pytest.param({}, {"nodes": "4"}, Surroundings(Way.LOGIN), id="nodes"),
        pytest.param({}, {"words": ("-p", "gpu")}, Surroundings(Way.LOGIN), id="srun's options"),
        pytest.param({}, {"mode": "slurm"}, Surroundings(Way.LOGIN), id="by word"),
        pytest.param(JOB, {}, Surroundings(Way.JOB, "n[1-4]", cpus_per_node=4), id="a batch script"),
        pytest.param(
            {**JOB, "SLURM_STEP_ID": "4294967290"}, {}, Surroundings(Way.JOB, "n[1-4]", cpus_per_node=4), id="salloc"
        ),
        pytest.param(STEP, {}, Surroundings(Way.STEP, "n[2-3]", cpus_per_node=4), id="task 0 of a step"),
        pytest.param(
            {**STEP, "SLURM_PROCID": "5"},
            {},
            Surroundings(Way.STEP, "n[2-3]", first=False, cpus_per_node=4),
            id="another task",
        ),
        pytest.param(JOB, {"mode": "local"}, Surroundings(Way.LOCAL), id="local by word"),
    ],
)
def test_where_we_are_decides_how_the_nodes_are_reached(
    environment: dict[str, str], asked: dict[str, object], expected: Surroundings
) -> None:
    given: dict[str, object] = {"mode": "auto", "nodes": None, "words": (), **asked}
    assert surroundings(environment, srun_found=True, **given) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "asked", "srun_found", "words"),
    [
        (JOB, {}, False, "no srun on PATH"),
        (STEP, {}, False, "no srun on PATH"),
        ({}, {"nodes": "4"}, False, "no srun on PATH"),
        ({}, {"mode": "slurm"}, False, "no srun on PATH"),
        ({}, {"mode": "local", "nodes": "4"}, True, "--mode=local"),
        ({**JOB, "SLURM_HET_SIZE": "2"}, {}, True, "heterogeneous"),
    ],
)
def test_what_cannot_be_had_here_is_refused_in_a_sentence(
    environment: dict[str, str], asked: dict[str, object], srun_found: bool, words: str
) -> None:
    given: dict[str, object] = {"mode": "auto", "nodes": None, "words": (), **asked}
    with pytest.raises(ConfigurationError, match=words):
        surroundings(environment, srun_found=srun_found, **given)  # type: ignore[arg-type]


def test_without_srun_the_other_tasks_of_a_step_are_silent() -> None:
    here = surroundings({**STEP, "SLURM_PROCID": "1"}, mode="auto", nodes=None, words=(), srun_found=False)
    assert not here.first


@pytest.mark.parametrize(("text", "count"), [("8", 8), ("8(x4)", 8), ("8(x2),4", 4), ("", None), ("x", None)])
def test_the_node_with_the_fewest_processors_counts(text: str, count: int | None) -> None:
    assert fewest(text) == count


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({}, (None, 0)),
        ({"SLURM_JOB_ID": "12"}, ("12", 0)),
        ({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2"}, ("12", 2)),
        ({"SLURM_JOB_ID": "80", "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "4"}, ("77_4", 0)),
    ],
)
def test_a_job_is_named_as_the_run_directory_names_it(environment: dict[str, str], job: tuple[str | None, int]) -> None:
    assert job_of(environment) == job
