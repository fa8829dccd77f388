"""What is installed and how it is set, told for the comparison of nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.errors import CommandError
from slurm_resilience.preflight.checks.software.asked_python import NoAnswer, asked_python
from slurm_resilience.preflight.checks.software.environment import environment
from slurm_resilience.preflight.checks.software.versions import container, judge, versions
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import Programs, complete, context, findings, only, outcomes, tree

FILES = {
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
    "sys/module/nvidia/version": "570.86.15\n",
    "sys/class/infiniband/mlx5_0/fw_ver": "28.39.1002",
    "sys/class/infiniband/mlx5_1/fw_ver": "28.39.1002",
}
TORCH = {"python": "3.11.2", "torch": "2.13.0+cu128", "cuda": "12.8", "nccl": "2.27.5", "gpus": 8, "hip": None}


def answers(facts: Any = None, **more: Any) -> Programs:
    said = f"welcome to node n1\nslurm-resilience-versions:{json.dumps(TORCH | (facts or {}))}\n"
    return Programs({sys.executable: said, **more})


def test_everything_that_can_be_told_is_measured(tmp_path: Path):
    more: dict[str, Any] = {
        "srun --version": "slurm-wlm 22.05.8\n",
        "ofed_info -s": "MLNX_OFED_LINUX-23.10-1.1.9.0:\n",
        "fi_info --version": "fi_info: 1.20.1\nlibfabric: 1.20.1\nlibfabric api: 1.20\n",
    }
    root = tree(tmp_path, {**FILES, "run/.containerenv": 'engine="podman-4"\nimage="x:1"\nimageid="abc"\n'})

    found = only(versions, context(root, gpus=8), runner=answers(**more))

    assert found.outcome is Outcome.OK
    expected = {
        "kernel": "6.1.0",
        "os": "Debian GNU/Linux 12",
        "driver": "570.86.15",
        "firmware": "28.39.1002",
        "container": "abc",
        "slurm": "22.05.8",
        "ofed": "MLNX_OFED_LINUX-23.10-1.1.9.0",
        "libfabric": "1.20.1",
        "python": "3.11.2",
        "torch": "2.13.0+cu128",
        "cuda": "12.8",
        "nccl": "2.27.5",
    }
    assert expected.items() <= found.measured.items()
    assert set(found.measured) - set(expected) <= {"glibc"}
    assert found.sentence == "torch 2.13.0+cu128, NCCL 2.27.5, CUDA 12.8, driver 570.86.15, Python 3.11.2, Linux 6.1.0"


def test_what_a_node_does_not_tell_is_left_out(tmp_path: Path):
    found = only(versions, context(tmp_path), runner=answers({"torch": None, "cuda": None, "nccl": None, "gpus": None}))
    assert found.outcome is Outcome.OK
    assert set(found.measured) <= {"glibc", "python"}


@pytest.mark.parametrize(
    ("programs", "outcome", "problem", "words"),
    [
        (Programs({}), "fail", Problem.USER, "can't be run"),
        (Programs({sys.executable: "hangs"}), "warn", Problem.NODE, "slow to load torch"),
        (Programs({sys.executable: 1}), "fail", Problem.NODE, "fails"),
        (Programs({sys.executable: "only noise\n"}), "fail", Problem.NODE, "fails"),
    ],
)
def test_a_python_that_gives_no_answer(tmp_path: Path, programs: Programs, outcome: str, problem: Problem, words: str):
    found = only(versions, context(tree(tmp_path, FILES)), runner=programs)
    assert (found.outcome.value, found.problem) == (outcome, problem)
    assert words in found.sentence
    assert len(found.sentence) < 300  # not our whole script
    assert found.measured["kernel"] == "6.1.0"


@pytest.mark.parametrize(
    ("asked", "gpus", "expected", "outcome"),
    [
        ({"torch": "2", "cuda": "12.8"}, 8, 8, []),
        ({"torch": "2", "cuda": "12.8"}, 0, 8, ["fail"]),  # a driver that is too old, say
        ({"torch": "2", "cuda": "12.8"}, 0, 0, []),
        ({"torch": "2", "cuda": "12.8"}, 0, None, []),
        ({"torch": "2+cpu"}, None, 8, ["warn"]),
        ({"torch": "2", "hip": "6"}, 8, 8, []),
        ({"python": "3.11"}, None, 8, []),  # not every training is torch's
        ({"torch_trouble": "OSError('libcudart.so.12')"}, None, None, ["fail"]),
    ],
)
def test_a_torch_that_can_not_use_the_gpus(
    asked: dict[str, str], gpus: int | None, expected: int | None, outcome: list[str]
):
    found = judge(asked, gpus=gpus, expected_gpus=expected)
    for each in found:
        complete(each)
    assert outcomes(found) == outcome


def test_the_training_s_python_is_really_asked_with_the_training_s_environment(tmp_path: Path):
    (tmp_path / "torch.py").write_text(
        "class version: cuda, hip = None, None\n__version__ = '9.9'\nprint('hello from torch')\n"
    )
    found = asked_python(context(tmp_path, {"PYTHONPATH": str(tmp_path)}))
    assert found["torch"] == "9.9"
    assert found["python"].startswith("3.")
    assert "cuda" not in found


@pytest.mark.parametrize(
    ("module", "trouble"),
    [
        ("raise OSError('libcudart.so.12: cannot open shared object file')", "OSError"),
        ("import no_such_module", "no_such_module"),
    ],
)
def test_a_torch_that_is_there_and_broken_is_told_from_one_that_is_not_there(tmp_path: Path, module: str, trouble: str):
    (tmp_path / "torch.py").write_text(module)
    assert trouble in asked_python(context(tmp_path, {"PYTHONPATH": str(tmp_path)}))["torch_trouble"]


def test_a_python_that_is_not_there_or_dies(tmp_path: Path):
    with pytest.raises(CommandError):
        asked_python(context(tmp_path, python=str(tmp_path / "python")))
    with pytest.raises(NoAnswer, match="left with 1"):
        asked_python(context(tmp_path, python="/bin/false"))


@pytest.mark.parametrize(
    ("files", "variables", "told"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/images/torch.sif"}, "/images/torch.sif"),
        ({}, {"SINGULARITY_NAME": "torch.sif"}, "torch.sif"),
    ],
)
def test_which_container_it_is(tmp_path: Path, files: dict[str, str], variables: dict[str, str], told: str | None):
    assert container(tree(tmp_path, files), variables) == told


def test_only_variables_that_steer_a_training_are_told_and_no_secret(tmp_path: Path):
    variables = {
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "GLOO_SOCKET_IFNAME": "eth0",
        "CUDA_VISIBLE_DEVICES": "0",
        "OMP_NUM_THREADS": "4",
        "UCX_TLS": "rc",
        "FI_PROVIDER": "efa",
        "FI_CLIENT_SECRET": "hunter2",
        "TORCH_HUB_TOKEN": "hunter3",
        "UCX_PROXY": "http://me:hunter4@proxy:3128",
        "LD_PRELOAD": "/lib/x.so",
        "PYTHONPATH": "/work",
        "AWS_SECRET_ACCESS_KEY": "hunter5",
        "HOME": str(tmp_path),
        "MY_PASSWORD": "hunter6",
        "PATH": "/usr/bin",
    }
    tree(tmp_path, {".nccl.conf": "NCCL_ALGO=Ring\nNCCL_X_KEY=hunter7\n"})

    found = only(environment, context(tmp_path, variables))

    assert found.outcome is Outcome.OK
    assert "hunter" not in json.dumps(dict(found.measured)) + found.sentence
    told = found.measured["variables"]
    assert told["NCCL_DEBUG"] == "WARN"
    assert told["UCX_PROXY"] == "http://me:(not told)@proxy:3128"
    assert set(variables) - set(told) == {"AWS_SECRET_ACCESS_KEY", "HOME", "MY_PASSWORD", "PATH"}
    assert found.measured["nccl_files"][str(tmp_path / ".nccl.conf")]["NCCL_ALGO"] == "Ring"


def test_two_search_paths_are_told_apart_without_being_told(tmp_path: Path):
    one = only(environment, context(tmp_path, {"PATH": "/usr/bin"})).measured["path_sha256"]
    other = only(environment, context(tmp_path, {"PATH": "/opt/bin:/usr/bin"})).measured["path_sha256"]
    assert one != other


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, []),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, []),
        ({"TORCH_NCCL_BLOCKING_WAIT": "0"}, []),
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, ["no watchdog"]),
        ({"TORCH_NCCL_BLOCKING_WAIT": "True"}, ["no watchdog"]),
        ({"NCCL_BLOCKING_WAIT": "1"}, ["old name of TORCH_NCCL_BLOCKING_WAIT", "no watchdog"]),
        ({"NCCL_ASYNC_ERROR_HANDLING": "1"}, ["old name"]),
        ({"NCCL_DESYNC_DEBUG": "1"}, ["old name"]),
        ({"NCCL_ENABLE_TIMING": "1"}, ["old name"]),
        ({"NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}, ["old name"]),
        ({"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"}, ["deprecated"]),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, ["hangs for ever"]),
    ],
)
def test_variables_that_do_harm_are_the_users(tmp_path: Path, variables: dict[str, str], words: list[str]):
    found = findings(environment, context(tmp_path, variables))
    told = [each for each in found if each.outcome is Outcome.WARN]
    assert len(told) == len(words)
    assert all(word in each.sentence and each.problem is Problem.USER for word, each in zip(words, told, strict=True))
    assert "variables" in found[0].measured


def test_programs_that_answer_nonsense_tell_nothing(tmp_path: Path):
    found = only(
        versions, context(tmp_path), runner=answers(**{"srun --version": "what?\n", "fi_info --version": "\n"})
    )
    assert "slurm" not in found.measured
    assert "libfabric" not in found.measured
