"""What the training's own Python says of itself and of torch. It is run: we never import torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from slurm_resilience.command import Completed, run
from slurm_resilience.preflight.check import Context

ANSWER_S = 20.0
_MARK = "slurm-resilience-versions:"
"""Sites have Python say things at its start."""

Runner = Callable[..., Completed]

# torch.cuda.device_count() asks NVML where it can: no GPU memory is taken, no context made.
_SCRIPT = f"""
import json, platform, sys
facts = {{"python": platform.python_version(), "prefix": sys.prefix}}
try:
    import torch
    facts["torch"] = torch.__version__
    facts["cuda"] = torch.version.cuda
    facts["hip"] = getattr(torch.version, "hip", None)
    if torch.version.cuda or facts["hip"]:
        try:
            version = torch.cuda.nccl.version()
            facts["nccl"] = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
        except Exception as error:
            facts["nccl_trouble"] = repr(error)
        facts["gpus"] = torch.cuda.device_count()
    with open("/proc/self/maps") as maps:
        loaded = {{line.split()[-1] for line in maps if "libnccl" in line}}
    facts["nccl_library"] = sorted(loaded)[0] if loaded else None
except ModuleNotFoundError as error:
    if error.name != "torch":
        facts["torch_trouble"] = repr(error)
except Exception as error:
    facts["torch_trouble"] = repr(error)
print("{_MARK}" + json.dumps(facts), flush=True)
"""


class NoAnswer(Exception):
    """The message is what Python said instead."""


def asked_python(context: Context, runner: Runner = run) -> dict[str, Any]:
    """Raises CommandError where it can't be run or takes too long, NoAnswer where it fails."""
    argv = [context.python or sys.executable, "-c", _SCRIPT]
    done = runner(argv, timeout_s=ANSWER_S, env=context.environment)
    for line in done.out.splitlines():
        if line.startswith(_MARK):
            facts = json.loads(line[len(_MARK) :])
            return {name: value for name, value in facts.items() if value is not None}
    raise NoAnswer(done.complaint)
