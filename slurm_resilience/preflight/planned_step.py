"""The step that a request needs where we are: which nodes, by srun or here."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping, Sequence

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.host_list import expand
from slurm_resilience.preflight.local_step import local_step
from slurm_resilience.preflight.request import PreflightRequest
from slurm_resilience.preflight.srun_step import SrunStep, StepPlan
from slurm_resilience.preflight.step import Step
from slurm_resilience.preflight.way import Surroundings, Way

_OUTLIVES_S = 30.0
"""How much longer than all limits together the nodes' processes may live, should nobody end them."""
_COUNT = re.compile(r"\d+(-\d+)?")


def step_for(
    here: Surroundings,
    request: PreflightRequest,
    nodes: str | None,
    words: Sequence[str],
    environment: Mapping[str, str],
) -> tuple[Step, tuple[str, ...]]:
    """And the line that starts it, for people. `nodes`, `words`: the user's. Raises ConfigurationError."""
    limit_s = request.time_limit_s + request.start_limit_s + _OUTLIVES_S
    program: tuple[str, ...] = (sys.executable, "-m", "slurm_resilience.preflight.node", f"--deadline={limit_s:g}")
    if request.interface is not None:
        program = (*program, f"--interface={request.interface}")
    if here.way is Way.LOCAL:
        local = local_step(program, (environment.get("SLURMD_NODENAME") or socket.gethostname(),), environment)
        return local, local.launches[0].argv
    count, named = _asked_for(nodes)
    if here.way is not Way.LOGIN:
        count, named = None, _of_job(here.nodes, count, named)
    plan = StepPlan(here.way, program, named, count, tuple(words), here.cpus_per_node, request.time_limit_s)
    step = SrunStep.of(plan, environment)
    return step, step.launches[0].argv


def _asked_for(nodes: str | None) -> tuple[str | None, tuple[str, ...]]:
    """How many, or which."""
    if nodes is None or _COUNT.fullmatch(nodes):
        return nodes, ()
    named = tuple(expand(nodes))
    if not named:
        raise ConfigurationError(f"--nodes={nodes} is neither a number nor a list of nodes that can be read")
    return None, named


def _of_job(listed: str, count: str | None, named: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the job's nodes that were named, or so many, or all."""
    ours = tuple(expand(listed))
    if not ours:
        raise ConfigurationError(f"Slurm's list of this job's nodes can't be read: {listed!r}")
    strangers = [node for node in named if node not in ours]
    if strangers:
        raise ConfigurationError(f"--nodes names {', '.join(strangers)}, but the job has {listed}")
    if count is None:
        return named or ours
    wanted = int(count.partition("-")[0])
    if not 1 <= wanted <= len(ours):
        raise ConfigurationError(f"--nodes={count}, but the job has {len(ours)} nodes: {listed}")
    return ours[:wanted]
