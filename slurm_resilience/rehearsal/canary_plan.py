"""A canary's command lines: the training as its user starts it, on one node and on all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_options import SrunLine

NOT_OF_A_CANARY = frozenset(
    "run-dir continue chain-dependency no-requeue from-scratch take-over publish publish-limit preflight on-preflight "
    "preflight-time-limit preflight-skip dry-run max-stuck max-crashes max-hangs max-storage-faults max-out-of-memory "
    "max-node-failures max-never-started max-quarantines".split()
)
"""srun-resilient's options that may stand in the long job's line, and that a canary decides itself or does without."""
_NOT_INHERITED = (
    "SLURM_RESILIENCE_CONTINUE",
    "SLURM_RESILIENCE_FROM_SCRATCH",
    "SLURM_RESILIENCE_ON_PREFLIGHT",
    "SLURM_RESILIENCE_PREFLIGHT",
    "SLURM_RESILIENCE_PREFLIGHT_SKIP",
    "SLURM_RESILIENCE_PUBLISH",
    "SLURM_RESILIENCE_PUBLISH_LIMIT",
    "SLURM_RESILIENCE_RUN_DIR",
)
_ONCE = ("stuck", "crashes", "hangs", "storage-faults", "out-of-memory", "node-failures", "never-started")
"""One end of any of these kinds is the canary's result: nothing is tried again."""
ONE_NODE, ALL_NODES = "one node", "all nodes"


@dataclass(frozen=True, slots=True)
class Part:
    """The training on so many nodes, in a run of its own."""

    name: str
    run: Path
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    line: SrunLine
    """srun's options and srun-resilient's, mixed, and the command."""
    kind: CommandKind
    nodes: int
    """As many as the long job has."""
    tasks: int | None
    """Of a plain command on all nodes; None: Slurm's to say."""
    local: bool
    """Whether there is no Slurm: then there is one node."""


def parts_of(wanted: Wanted, folder: Path, python: str) -> tuple[Part, ...]:
    """One node first: what fails there is cheaper to see there."""
    kept = wanted.line.without(NOT_OF_A_CANARY)
    parts = [Part(ONE_NODE, folder / "one-node", _argv(_on_one_node(kept, wanted), kept, folder / "one-node", python))]
    if wanted.nodes > 1:
        run = folder / "all-nodes"
        parts.append(Part(ALL_NODES, run, _argv(kept.words_without(), kept, run, python)))
    return tuple(parts)


def _on_one_node(kept: SrunLine, wanted: Wanted) -> list[str]:
    if wanted.local:
        return kept.words_without()
    if wanted.kind is CommandKind.TORCHRUN:  # the wrapper lays the step out: one task a node
        return [*kept.words_without("nodes"), "--nodes=1"]
    tasks = [] if wanted.tasks is None else [f"--ntasks={max(1, wanted.tasks // wanted.nodes)}"]
    return [*kept.words_without("nodes", *(["ntasks"] if tasks else [])), "--nodes=1", *tasks]


def _argv(options: list[str], kept: SrunLine, run: Path, python: str) -> tuple[str, ...]:
    program = (python, "-m", "slurm_resilience.cli.srun_resilient")
    limits = [f"--max-{name}=1" for name in _ONCE]
    return (*program, f"--run-dir={run}", "--no-requeue", *limits, *options, "--", *kept.command)


def environment_of(inherited: Mapping[str, str]) -> dict[str, str]:
    """Without what a user has set for the long job."""
    return {name: value for name, value in inherited.items() if name not in _NOT_INHERITED}
