"""The batch scripts people start from: right under bash's strictest eyes, in the first attempt and in the fifth."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.template import purpose, template, templates

FOLDER = Path(__file__).parents[2] / "sbatch_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sbatch"))
FIRST_ATTEMPT = {"SLURM_JOB_ID": "100"}
LATER_ATTEMPT = {**FIRST_ATTEMPT, "SLURM_RESTART_COUNT": "4"}
ELEMENT = {"SLURM_ARRAY_JOB_ID": "90", "SLURM_ARRAY_TASK_ID": "3"}


def run_with_a_supervisor_that_prints_its_arguments(
    script: Path, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    for name in ("srun-resilient", "slurm-resilience"):
        stand_in = folder / name
        stand_in.write_text('#!/bin/sh\necho "pid $$"\nfor word in "$@"; do echo "$word"; done\nexit 75\n')
        stand_in.chmod(0o755)
    return subprocess.run(
        ["bash", "-c", 'echo "pid $$"; exec bash "$1"', "bash", str(script)],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_kinds_of_job_have_a_template() -> None:
    assert set(templates()) == {"single_node", "multi_node", "preemptible", "array", "canary"}


@pytest.mark.parametrize("name", NAMES)
def test_shellcheck_has_nothing_to_say(name: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(
        ["shellcheck", str(FOLDER / f"{name}.sbatch")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout == ""


@pytest.mark.parametrize("environment", [FIRST_ATTEMPT, LATER_ATTEMPT], ids=["first attempt", "later attempt"])
@pytest.mark.parametrize("name", NAMES)
def test_the_supervisor_becomes_the_batch_script_whatever_slurm_has_set(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    if name == "array":
        environment = {**environment, **ELEMENT}
    done = run_with_a_supervisor_that_prints_its_arguments(FOLDER / f"{name}.sbatch", tmp_path, environment)
    assert done.stderr == ""
    assert done.returncode == 75, "the job's exit code is not the supervisor's"
    shell, supervisor = [line for line in done.stdout.splitlines() if line.startswith("pid ")]
    assert shell == supervisor, "a shell is left between Slurm and the supervisor"


def test_every_element_of_an_array_trains_with_its_own_number(tmp_path: Path) -> None:
    script = FOLDER / "array.sbatch"
    done = run_with_a_supervisor_that_prints_its_arguments(script, tmp_path, {**FIRST_ATTEMPT, **ELEMENT})
    assert done.stdout.splitlines()[2:] == ["python", "train.py", "--seed", "3"]


def test_the_canary_is_given_the_trainings_own_words(tmp_path: Path) -> None:
    done = run_with_a_supervisor_that_prints_its_arguments(FOLDER / "canary.sbatch", tmp_path, FIRST_ATTEMPT)
    assert done.stdout.splitlines()[2:] == ["canary", "--run-dir=runs/train", "--", "torchrun", "train.py"]


def test_an_array_script_submitted_without_array_ends_before_it_touches_a_run(tmp_path: Path) -> None:
    done = run_with_a_supervisor_that_prints_its_arguments(FOLDER / "array.sbatch", tmp_path, FIRST_ATTEMPT)
    assert done.returncode != 0
    assert "SLURM_ARRAY_TASK_ID: unbound variable" in done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["--requeue", "--open-mode=append", "--signal=USR1@180", "--ntasks-per-node=1"])
def test_no_template_lacks_what_a_requeue_needs(name: str, option: str) -> None:
    assert f"#SBATCH {option}\n" in templates()[name]


@pytest.mark.parametrize("name", NAMES)
def test_slurm_reads_every_option_because_none_stands_behind_a_command(name: str) -> None:
    lines = templates()[name].splitlines()
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert not [line for line in lines[first_command:] if line.startswith("#SBATCH")]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_explained(name: str) -> None:
    explained = (FOLDER / "README.md").read_text()
    for line in templates()[name].splitlines():
        option = re.match(r"#SBATCH (--[a-z-]+)", line)
        if option:
            assert option[1] in explained, line
    assert f"`{name}.sbatch`" in explained


def test_template_alone_lists_each_name_with_its_purpose() -> None:
    listed = CliRunner().invoke(template, [])
    assert listed.exit_code == 0
    for name, text in templates().items():
        assert purpose(text)
        assert re.search(rf"^{name} +{re.escape(purpose(text))}$", listed.output, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_template_prints_the_file_as_it_is(name: str) -> None:
    assert CliRunner().invoke(template, [name]).output == (FOLDER / f"{name}.sbatch").read_text()


def test_template_explain_prints_what_the_lines_mean() -> None:
    assert CliRunner().invoke(template, ["explain"]).output == (FOLDER / "README.md").read_text()


def test_an_unknown_template_is_one_sentence_with_the_names_there_are() -> None:
    done = CliRunner().invoke(template, ["multinode"])
    assert done.exit_code == 2
    names = "array, canary, multi_node, preemptible, single_node"
    assert f"there is no template 'multinode': there are {names}" in done.output


def test_output_writes_the_script(tmp_path: Path) -> None:
    done = CliRunner().invoke(template, ["array", "--output", str(tmp_path / "train.sbatch")])
    assert done.exit_code == 0
    assert (tmp_path / "train.sbatch").read_text() == templates()["array"]


def test_output_leaves_a_script_that_exists_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "train.sbatch"
    mine.write_text("adapted")
    done = CliRunner().invoke(template, ["array", "--output", str(mine)])
    assert done.exit_code == 1
    assert "exists already" in done.output
    assert mine.read_text() == "adapted"


def test_output_into_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(template, ["array", "--output", str(tmp_path / "nowhere" / "train.sbatch")])
    assert done.exit_code == 1
    assert "can't be written: No such file or directory" in done.output


def test_output_without_a_name_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(template, ["--output", str(tmp_path / "x")]).exit_code == 2
