"""Preflight's step without Slurm: one process on this machine. In tests several, each a node by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_resilience.preflight.step import Launch, PipedStep


def local_step(program: Sequence[str], nodes: Sequence[str], environment: Mapping[str, str]) -> PipedStep:
    launches = [
        Launch((*program, f"--task={task}", f"--node={node}"), environment, task) for task, node in enumerate(nodes)
    ]
    return PipedStep(launches, nodes=tuple(nodes))
