"""Check `versions`: what is installed here, told for the comparison with the other nodes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError, CommandMissing
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.gpu.expected import expected
from slurm_resilience.preflight.checks.reading import names_in, text_of
from slurm_resilience.preflight.checks.software.asked_python import NoAnswer, asked_python
from slurm_resilience.preflight.checks.summary import counted, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, warn

_ANSWER_S = 3.0
_LEAVE_OUT = "leave the node out (--exclude) and tell the admins"
_COMMANDS = (
    ("slurm", ["srun", "--version"], re.compile(r"slurm\S* (\S+)")),
    ("ofed", ["ofed_info", "-s"], re.compile(r"(\S+?):?\s*$")),
    ("libfabric", ["fi_info", "--version"], re.compile(r"libfabric: (\S+)")),
)
_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "APPTAINER_NAME", "SINGULARITY_NAME")
Runner = Callable[..., Completed]


def versions(context: Context, tell: Tell, runner: Runner = run) -> Iterable[Finding]:
    tell("reading what the kernel says of itself")
    facts: dict[str, Any] = _of_files(context.root, context.environment)
    for name, argv, pattern in _COMMANDS:
        tell(f"running {argv[0]}")
        try:
            done = runner(argv, timeout_s=_ANSWER_S, env=context.environment)
        except CommandError:
            continue
        found = pattern.search(done.out)
        if done.code == 0 and found:
            facts[name] = found[1]
    python = context.python or sys.executable
    tell(f"running {python}, which loads torch")
    problems: list[Finding] = []
    try:
        asked = asked_python(context, runner)
    except CommandMissing as error:
        asked = {}
        problems = [fail(Problem.USER, f"the training's Python can't be run: {error}", "name one that each node has")]
    except CommandError as error:
        asked = {}
        text = f"the training's Python is slow to load torch: {str(error).partition(' -c ')[0]}: no answer in time"
        problems = [warn(Problem.NODE, text, "is it on slow storage? A copy or an image on the node loads faster")]
    except NoAnswer as error:
        asked = {}
        problems = [fail(Problem.NODE, f"the training's Python fails: {error}", f"run `{python} -c ''` on that node")]
    gpus = asked.pop("gpus", None)
    problems += judge(asked, gpus=gpus, expected_gpus=expected(context))
    facts |= asked
    told = [f"{name} {facts[key]}" for key, name in _TOLD if key in facts]
    return summed_up(problems, ", ".join(told), facts)


_TOLD = (
    ("torch", "torch"),
    ("nccl", "NCCL"),
    ("cuda", "CUDA"),
    ("driver", "driver"),
    ("python", "Python"),
    ("kernel", "Linux"),
)


def judge(asked: Mapping[str, Any], *, gpus: int | None, expected_gpus: int | None) -> list[Finding]:
    if "torch_trouble" in asked:
        text = f"torch can't be loaded: {asked['torch_trouble']}"
        return [fail(Problem.NODE, text, "compare with another node: is a library missing here, or on all?")]
    if "torch" not in asked or not expected_gpus:
        return []
    if "cuda" not in asked and "hip" not in asked:
        text = f"torch {asked['torch']} is made for processors only, and the job has {counted(expected_gpus, 'GPU')}"
        return [
            warn(Problem.USER, text, "install a torch made for the driver of these nodes, or name it with --python")
        ]
    if gpus == 0:
        text = f"torch {asked['torch']} sees none of {counted(expected_gpus, 'GPU')}"
        return [
            fail(
                Problem.NODE,
                text,
                f"is the driver too old for CUDA {asked.get('cuda')}? If others see them, {_LEAVE_OUT}",
            )
        ]
    return []


def _of_files(root: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    release = dict(
        line.split("=", 1) for line in (text_of(root / "etc" / "os-release") or "").splitlines() if "=" in line
    )
    driver = text_of(root / "sys" / "module" / "nvidia" / "version")
    devices = root / "sys" / "class" / "infiniband"
    firmware = sorted({text_of(devices / name / "fw_ver") or "" for name in names_in(devices)} - {""})
    facts = {
        "kernel": text_of(root / "proc" / "sys" / "kernel" / "osrelease"),
        "os": release.get("PRETTY_NAME", "").strip('"') or None,
        "glibc": _glibc(),
        "driver": driver,
        "firmware": ", ".join(firmware) or None,
        "container": container(root, environment),
    }
    return {name: value for name, value in facts.items() if value is not None}


def container(root: Path, environment: Mapping[str, str]) -> str | None:
    """Its image, as far as it tells it; else its kind. None: no container to be seen."""
    for name in _CONTAINERS:
        if environment.get(name):
            return environment[name]
    podman = text_of(root / "run" / ".containerenv")
    if podman is not None:
        image = re.search(r'^imageid="(.+)"$', podman, re.MULTILINE) or re.search(
            r'^image="(.+)"$', podman, re.MULTILINE
        )
        return image[1] if image else "podman"
    return "docker" if (root / ".dockerenv").exists() else None


def _glibc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # another libc
        return None
