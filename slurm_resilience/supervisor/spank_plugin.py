"""Whether this cluster has our plugin of Slurm: srun itself lists the options of every plugin that it loads."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from slurm_resilience.command import run
from slurm_resilience.errors import CommandError
from slurm_resilience.launch.srun_line import wants_plugin
from slurm_resilience.launch.srun_options import SrunLine

HELP_S = 3.0
"""A srun that takes longer to list its options is done without."""
_OPTION = re.compile(r"^\s*--resilient\b", re.MULTILINE)


def has_plugin(line: SrunLine, environment: Mapping[str, str]) -> bool:
    """Whether the step of `line` can have the plugin's help, and is to have it.

    Asked once of a srun and its configuration (12 ms); whatever goes wrong, there is none.
    """
    if not wants_plugin(line, environment):
        return False
    told = {name: environment[name] for name in ("PATH", "SLURM_CONF", "HOME") if name in environment}
    return _is_listed(tuple(told.items()))


@functools.cache
def _is_listed(environment: tuple[tuple[str, str], ...]) -> bool:
    try:
        answer = run(["srun", "--help"], timeout_s=HELP_S, env=dict(environment) | {"LC_ALL": "C"})
    except (CommandError, OSError):
        return False
    return answer.code == 0 and _OPTION.search(answer.out) is not None
