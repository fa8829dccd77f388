"""A node's part of the rounds of all-reduce: a program of the training's interpreter, and where it is to meet."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from typing import Any

from slurm_resilience.command import run
from slurm_resilience.errors import CommandMissing, CommandTimedOut
from slurm_resilience.launch.rendezvous import can_be_bound, candidate_ports, ephemeral_ports
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.rounds.all_reduce_judgement import PAIR_SIZES, SIZES, turns_of
from slurm_resilience.preflight.rounds.peers import is_loopback
from slurm_resilience.preflight.rounds.resolving import look_up

_PROGRAM = "slurm_resilience.integrations.all_reduce"
_LOOK = "import importlib.util; print('torch:', importlib.util.find_spec('torch') is not None)"
MARK = "slurm-resilience all-reduce: "
"""As the program has it: importing it here would be a door to torch."""
_RANKS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def ready(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """Whether torch is there (it is not loaded for that), and on the first node a port that is free."""
    python = context.python or sys.executable
    tell(f"looking for torch with {python}")
    answer: dict[str, Any] = {"python": python}
    try:
        looked = run([python, "-c", _LOOK], timeout_s=8, env=dict(context.environment))
        answer["torch"] = "torch: True" in looked.out
        if looked.code != 0:
            answer["error"] = looked.complaint
    except (CommandMissing, CommandTimedOut) as error:
        answer |= {"torch": False, "error": str(error)}
    if assignment["port"]:
        ports = candidate_ports(f"preflight {assignment['key']}", ephemeral_ports())
        answer["port"] = next((port for port in ports if can_be_bound(port)), None)
    return answer


def reduce(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """What the program found; `{"stage": "start", "error": …}` where it did not get to say anything."""
    host = meeting_place(assignment)
    part = {
        **{name: assignment[name] for name in ("rank", "ranks", "port", "limit_s")},
        "host": host,
        # Worked out here: of a thousand nodes they would fill the channel that all assignments come by.
        "turns": turns_of(int(assignment["ranks"]), one_by_one=bool(assignment["one_by_one"])),
        "sizes": SIZES,
        "pair_sizes": PAIR_SIZES,
    }
    tell(f"all-reduce with {assignment['ranks'] - 1} other nodes by way of {host}:{assignment['port']}")
    argv = [context.python or sys.executable, "-c", _by_path(), json.dumps(part)]
    limit_s = float(assignment["limit_s"]) + 4
    try:
        done = run(argv, timeout_s=limit_s, env=_environment(context))
    except CommandMissing as error:
        return {"rank": assignment["rank"], "stage": "start", "error": str(error)}
    except CommandTimedOut:  # its own sentence has the whole program in it
        late = f"the program did not answer within {limit_s:g} s"
        return {"rank": assignment["rank"], "stage": "start", "error": late}
    for line in done.out.splitlines():
        if line.startswith(MARK):
            said: dict[str, Any] = json.loads(line[len(MARK) :])
            return said
    return {"rank": assignment["rank"], "stage": "start", "error": done.complaint}


def meeting_place(assignment: Mapping[str, Any]) -> str:
    """The first node by the name that leads there from here, as the training has it; by its address where none does."""
    found = look_up([[str(name) for name in assignment["names"]]], timeout_s=4.0)
    for name, answer in found.items():
        near = assignment["same_host"]
        if answer["addresses"] and (near or not any(is_loopback(address) for address in answer["addresses"])):
            return name
    return str(next(iter(assignment["addresses"]), assignment["names"][0]))


def _environment(context: Context) -> dict[str, str]:
    environment = {name: value for name, value in context.environment.items() if name not in _RANKS}
    if context.interface is not None:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            environment.setdefault(name, context.interface)
    return environment


def _by_path() -> str:
    """The program as a file: the training's interpreter need not have this package."""
    spec = importlib.util.find_spec(_PROGRAM)
    path = None if spec is None else spec.origin
    return f"import runpy; runpy.run_path({path!r}, run_name='__main__')"
