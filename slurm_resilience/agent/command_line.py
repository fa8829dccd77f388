"""What the agent starts: its arguments and its environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from slurm_resilience.agent.process_tree import MARKER
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind, Plan

SHUTDOWN_VARIABLE = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""How long a torchrun that knows it (2.13 does) gives ranks that it has asked to end; 30 s where nobody says."""
_LONGEST_SHUTDOWN_S = 7 * 24 * 3600


def command(plan: Plan, node_id: int) -> list[str]:
    match plan.kind:
        case CommandKind.TASK:
            if not plan.argv:
                raise ConfigurationError("the plan holds no command")
            return list(plan.argv)
        case CommandKind.TORCHRUN:
            return [plan.python, "-m", "slurm_resilience.integrations.torchrun", *_torchrun_options(plan, node_id)]


def _torchrun_options(plan: Plan, node_id: int) -> list[str]:
    options = [f"--nproc-per-node={plan.nproc_per_node}", "--max-restarts=0"]
    if plan.rendezvous is not None:
        options += [
            f"--nnodes={plan.nodes}",
            f"--node-rank={node_id}",
            # Static: rank numbers follow node ids. A dynamic rendezvous numbers by arrival, and a resumed training
            # is only bit-identical if every rank has its old place.
            "--rdzv-backend=static",
            f"--master-addr={plan.rendezvous.host}",
            f"--master-port={plan.rendezvous.port}",
            f"--rdzv-id={plan.rendezvous.id}",
        ]
    elif plan.nodes == 1:
        options.append("--standalone")
    else:
        raise ConfigurationError(f"the plan has {plan.nodes} nodes and no rendezvous")
    if plan.local_addr is not None:
        options.append(f"--local-addr={plan.local_addr}")
    return [*options, *plan.argv]


def environment(plan: Plan, inherited: Mapping[str, str], runtime: Path, marker: str) -> dict[str, str]:
    """The environment of the whole tree. `marker` tells its processes from all others of this machine."""
    ours = {
        "SLURM_RESILIENCE_RUN": plan.run,
        "SLURM_RESILIENCE_RUN_ID": plan.run_id,
        "SLURM_RESILIENCE_ATTEMPT": str(plan.attempt),
        "SLURM_RESILIENCE_RUNTIME": str(runtime),
        "SLURM_RESILIENCE_SAVE_WAIT_S": f"{plan.times.peer_failed_s:g}",  # for the torchrun shim
        MARKER: marker,
    }
    if plan.shutdown_timeout_s is not None:
        given = inherited.get(SHUTDOWN_VARIABLE, "")
        longest = max(plan.shutdown_timeout_s, float(given) if given.isdecimal() else 0.0)
        ours[SHUTDOWN_VARIABLE] = f"{min(math.ceil(longest), _LONGEST_SHUTDOWN_S)}"  # torchrun takes whole seconds
    if plan.end_s is not None:
        ours["SLURM_RESILIENCE_END"] = f"{plan.end_s:.0f}"
    if plan.interface is not None:
        ours |= {"GLOO_SOCKET_IFNAME": plan.interface, "NCCL_SOCKET_IFNAME": plan.interface}
    return {**inherited, **ours}
