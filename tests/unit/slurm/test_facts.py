"""What the environment says of the job."""

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.slurm.facts import job_facts

BATCH = {"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}


def test_without_a_job_there_are_no_facts() -> None:
    assert job_facts({}) is None


def test_the_restart_count_is_unset_on_the_first_run_and_means_none() -> None:
    facts = job_facts(BATCH)
    assert facts is not None
    assert (facts.restart_count, facts.batch, facts.cpus_per_node) == (0, True, 8)


def test_an_array_element_is_called_by_array_and_task_even_if_it_bears_the_arrays_own_id() -> None:
    facts = job_facts(BATCH | {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"})
    assert facts is not None
    assert facts.job == "7_3"


def test_inside_a_step_it_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"step 7\.0"):
        job_facts(BATCH | {"SLURM_STEP_ID": "0"})


def test_the_interactive_step_of_salloc_is_no_step() -> None:
    facts = job_facts({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": str(0xFFFFFFFA)})
    assert facts is not None
    assert not facts.batch


def test_a_heterogeneous_job_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="heterogeneous"):
        job_facts(BATCH | {"SLURM_HET_SIZE": "2"})


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({}, None),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "8"}, 8),
    ],
)
def test_gpus_are_counted_however_they_were_asked_for(variables: dict[str, str], gpus: int | None) -> None:
    facts = job_facts(BATCH | variables)
    assert facts is not None
    assert facts.gpus_per_node == gpus
