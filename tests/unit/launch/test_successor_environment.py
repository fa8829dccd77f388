"""What a successor's job inherits from the one before, and what it must not."""

from __future__ import annotations

import pytest

from slurm_resilience.launch.successor_environment import successor_environment

NAME = "SLURM_RESILIENCE_SUCCESSOR_OF"


def inherited(**environment: str) -> dict[str, str]:
    return successor_environment(environment, name=NAME, said="3:7")


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JOB_ID",
        "SLURM_CPU_BIND",
        "SLURM_MEM_PER_NODE",
        "SLURMD_NODENAME",
        "SLURM_EXPORT_ENV",
        "SBATCH_PARTITION",
        "SRUN_CPUS_PER_TASK",
        "PMI_RANK",
        "PMIX_SERVER_URI",
        "RANK",
        "MASTER_ADDR",
        "TORCHELASTIC_RUN_ID",
        "ENVIRONMENT",
        "SLURM_RESILIENCE_FROM_SCRATCH",
    ],
)
def test_what_was_for_this_job_alone_stays_behind(name: str) -> None:
    assert name not in inherited(**{name: "x"})


@pytest.mark.parametrize("name", ["PATH", "SLURM_CONF", "SLURM_RESILIENCE_PUBLISH", "RANKING", "GROUP_NAME", "HOME"])
def test_what_is_the_users_goes_on(name: str) -> None:
    assert inherited(**{name: "x"})[name] == "x"


def test_it_is_told_what_it_is() -> None:
    assert inherited(**{NAME: "2:6"}) == {NAME: "3:7"}


@pytest.mark.parametrize(
    ("folder", "kept"),
    [("/scratch/slurm.77", False), ("/local/job_77/tmp", False), ("/scratch/777", True), ("/tmp", True)],
)
def test_a_temporary_folder_of_this_job_stays_behind(folder: str, kept: bool) -> None:
    assert ("TMPDIR" in inherited(TMPDIR=folder, SLURM_JOB_ID="77")) is kept


def test_devices_that_slurm_chose_stay_behind_and_the_users_own_choice_does_not() -> None:
    assert "CUDA_VISIBLE_DEVICES" in inherited(CUDA_VISIBLE_DEVICES="0")
    assert "CUDA_VISIBLE_DEVICES" not in inherited(CUDA_VISIBLE_DEVICES="0", SLURM_JOB_GPUS="2")


@pytest.mark.parametrize("name", ["SLURM_RESILIENCE_RELAY", "SLURM_RESILIENCE_END_FILE"])
def test_what_was_for_one_step_stays_behind(name: str) -> None:
    assert name not in inherited(**{name: "/dev/shm/x"})


def test_what_an_attempts_own_processes_are_told_stays_behind_where_they_submit() -> None:
    of_an_attempt = {
        "SLURM_RESILIENCE_RUN": "/r",
        "SLURM_RESILIENCE_RUNTIME": "/dev/shm/x",
        "SLURM_RESILIENCE_END": "9",
    }
    kept = inherited(**of_an_attempt, SLURM_RESILIENCE_ATTEMPT="3", SLURM_RESILIENCE_CONTINUE="chain")
    assert kept == {NAME: "3:7", "SLURM_RESILIENCE_CONTINUE": "chain"}
    assert inherited(SLURM_RESILIENCE_RUN="/r") == {NAME: "3:7", "SLURM_RESILIENCE_RUN": "/r"}  # a user's own word
