"""Check `environment`: the variables that steer a training, told for the comparison, and what is wrong in them.

Values of other variables are not read, and what looks like a secret is not told: it would stand in the report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.fabric.nccl_settings import nccl_files
from slurm_resilience.preflight.checks.summary import counted, summed_up
from slurm_resilience.preflight.result import Finding, Problem, warn

_PREFIXES = ("NCCL_", "TORCH_", "GLOO_", "CUDA_", "OMP_", "UCX_", "FI_", "TP_")
_WHOLE = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"})
_SECRET = re.compile(r"TOKEN|KEY|PASSWORD|PASSWD|SECRET|CREDENTIAL", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")
_HIDDEN = "(not told)"

_RENAMED = {
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
}
"""torch 2.14's own list."""
_NEEDLESS = {"TORCH_NCCL_AVOID_RECORD_STREAMS": "torch does that by itself now"}
_ON = frozenset("1 y yes t true on".split())
_OFF = frozenset("0 n no f false off".split())


def environment(context: Context, tell: Tell) -> Iterable[Finding]:
    tell("reading the files of NCCL")
    variables = chosen(context.environment)
    path = context.environment.get("PATH", "")
    files = {
        str(place): {name: _told(name, value) for name, value in settings.items()}
        for place, settings in nccl_files(context).items()
    }
    facts = {
        "variables": variables,
        "path_sha256": hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:16],
        "nccl_files": files,
    }
    fine = f"{counted(len(variables), 'variable')} for NCCL, torch and the like" + (
        f", and {', '.join(files)}" if files else ""
    )
    return summed_up(judge(context.environment), fine, facts)


def chosen(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _told(name, value)
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES) or name in _WHOLE
    }


def judge(environment: Mapping[str, str]) -> list[Finding]:
    problems = []
    for old, new in _RENAMED.items():
        if old in environment:
            text = f"{old} is the old name of {new}: torch warns of it, and will forget it"
            problems.append(warn(Problem.USER, text, f"set {new} instead"))
    for name, why in _NEEDLESS.items():
        if name in environment:
            problems.append(warn(Problem.USER, f"{name} is deprecated: {why}", f"unset {name}"))
    if _first(environment, "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT") in _ON:
        text = "TORCH_NCCL_BLOCKING_WAIT is on: torch starts no watchdog then, and leaves no dump of a hang"
        problems.append(warn(Problem.USER, text, "unset TORCH_NCCL_BLOCKING_WAIT"))
    if _first(environment, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING") in _OFF:
        text = "TORCH_NCCL_ASYNC_ERROR_HANDLING is off: a collective that hangs, hangs for ever"
        problems.append(warn(Problem.USER, text, "unset TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    return problems


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((environment[name].strip().lower() for name in names if name in environment), "")


def _told(name: str, value: str) -> str:
    return _HIDDEN if _SECRET.search(name) else _PASSWORD_IN_URL.sub(rf"\1{_HIDDEN}@", value)
