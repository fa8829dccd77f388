"""What a rank is told by those who started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.training.environment import read_environment


def test_nobody_says_anything() -> None:
    environment = read_environment({})
    assert not environment.supervised
    assert (environment.rank, environment.local_rank, environment.world_size) == (0, 0, 1)
    assert not environment.has_launcher


def test_torchrun_s_word_about_ranks_comes_before_slurm_s() -> None:
    slurm = {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "64"}
    environment = read_environment(slurm)
    assert (environment.rank, environment.local_rank, environment.world_size) == (1, 0, 2)
    environment = read_environment(slurm | {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"})
    assert (environment.rank, environment.local_rank, environment.world_size) == (9, 1, 16)


def test_what_srun_resilient_says() -> None:
    environment = read_environment(
        {
            "SLURM_RESILIENCE_RUN": "/scratch/run",
            "SLURM_RESILIENCE_RUN_ID": "abc",
            "SLURM_RESILIENCE_ATTEMPT": "3",
            "SLURM_RESILIENCE_RUNTIME": "/dev/shm/x",
        }
    )
    assert environment.supervised
    assert (environment.run_directory, environment.run_id) == (Path("/scratch/run"), "abc")
    assert (environment.attempt, environment.runtime_folder) == (3, Path("/dev/shm/x"))
    assert environment.has_launcher


def test_an_array_task_is_named_by_array_and_index() -> None:
    array = {"SLURM_JOB_ID": "107", "SLURM_ARRAY_JOB_ID": "100", "SLURM_ARRAY_TASK_ID": "7"}
    assert read_environment(array).job == "100_7"
    assert read_environment({"SLURM_JOB_ID": "107"}).job == "107"


def test_numbers_that_are_none_are_named() -> None:
    with pytest.raises(ConfigurationError, match="RANK is 'two'"):
        read_environment({"RANK": "two"})
    with pytest.raises(ConfigurationError, match="SLURM_RESILIENCE_RUN is not"):
        read_environment({"SLURM_RESILIENCE_ATTEMPT": "1"})


@pytest.mark.parametrize(("text", "cap_bytes"), [("", None), ("0", 0), ("2GiB", 2 << 30), ("500MB", 500_000_000)])
def test_a_ballast_is_as_large_as_is_said(text: str, cap_bytes: int | None) -> None:
    assert read_environment({"SLURM_RESILIENCE_BALLAST": text}).ballast_cap_bytes == cap_bytes


def test_a_second_place_is_a_folder_and_may_name_variables() -> None:
    said = {"SLURM_RESILIENCE_SECOND_PLACE": "/local/$USER", "USER": "ada"}
    assert read_environment(said).second_place == Path("/local/ada")
    assert read_environment({}).second_place is None


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("SLURM_RESILIENCE_BALLAST", "much", "'much': say it like 2GiB, or 0"),
        ("SLURM_RESILIENCE_SECOND_PLACE", "s3://bucket", "it has to be a folder"),
        ("SLURM_RESILIENCE_SECOND_PLACE", "scratch", "an absolute path"),
        ("SLURM_RESILIENCE_SECOND_PLACE", "/local/$USER", "USER, which is not set"),
    ],
)
def test_places_and_sizes_that_are_none_are_named(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as refused:
        read_environment({name: text})
    assert says in str(refused.value)


def test_a_relay_is_for_a_rank_that_nobody_manages() -> None:
    plugin = {"SLURM_RESILIENCE_RELAY": "/dev/shm/x", "SLURM_RESILIENCE_END_FILE": "/dev/shm/x/end"}
    bare = read_environment(plugin | {"SLURM_RESILIENCE_RUN": "/runs/r"})
    assert (bare.relay, bare.end_file, bare.runtime_folder) == (Path("/dev/shm/x"), Path("/dev/shm/x/end"), None)
    assert (bare.supervised, bare.run_directory) == (False, Path("/runs/r"))
    managed = {"SLURM_RESILIENCE_RUN": "/runs/r", "SLURM_RESILIENCE_ATTEMPT": "3", "SLURM_RESILIENCE_RUNTIME": "/y"}
    supervised = read_environment(plugin | managed)
    assert (supervised.relay, supervised.runtime_folder) == (None, Path("/y"))
    assert supervised.end_file == Path("/runs/r/attempts/0003/end_of_time.json")
    assert read_environment({}).end_file is None
