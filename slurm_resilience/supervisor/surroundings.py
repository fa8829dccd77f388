"""What the supervisor runs in, and what follows from it. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path, PurePath

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import Way
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.request import ContinueBy, Request

_NAMELESS = frozenset({"", "wrap", "interactive", "bash", "sh", "zsh", "sbatch", "python", "python3"})
"""Job names that Slurm gives to whatever has none: they don't tell one run from another."""


class Mode(enum.Enum):
    """BATCH: in a batch script. ALLOCATION: in salloc's shell. LOGIN: srun gets the allocation. LOCAL: no Slurm."""

    BATCH = "batch"
    ALLOCATION = "allocation"
    LOGIN = "login"
    LOCAL = "local"


def choose_mode(request: Request, facts: JobFacts | None, *, srun_found: bool) -> Mode:
    """Where we are. Raises ConfigurationError where the user asks for what isn't here."""
    if request.mode == "local":
        return Mode.LOCAL
    if facts is not None:
        if not srun_found:
            raise ConfigurationError(f"job {facts.job} is a Slurm job, but there is no srun on PATH")
        return Mode.BATCH if facts.batch else Mode.ALLOCATION
    if request.mode == "slurm" and not srun_found:
        raise ConfigurationError("there is no srun on PATH: is this a host of the cluster?")
    if request.mode == "slurm" or (srun_found and request.srun.options):
        return Mode.LOGIN
    return Mode.LOCAL


def refuse_chain_elsewhere(request: Request, mode: Mode) -> None:
    """Raises ConfigurationError where a run can't go on by a successor's job, or is not to."""
    if request.continue_by is not ContinueBy.CHAIN:
        return
    if mode is not Mode.BATCH:
        raise ConfigurationError(
            f"{request.continue_said} queues the batch script again, and this is none: "
            "put the line into a script for sbatch, or say --continue=requeue"
        )
    if not request.requeue:
        raise ConfigurationError(f"{request.continue_said} and --no-requeue contradict each other")


def refuse_what_cannot_be_requeued(request: Request, mode: Mode, *, scontrol_found: bool) -> None:
    """Inside a container there often is no scontrol: said before the training starts, not when it is to go on."""
    if mode is Mode.BATCH and request.requeue and not scontrol_found:
        raise ConfigurationError(
            "there is no scontrol on PATH, so this job could not be queued again: put srun-resilient outside of the "
            "container and the container's options behind it, or say --no-requeue"
        )


def way_on(mode: Mode, cause: Cause, *, may_requeue: bool, chain: bool = False) -> Way:
    """How another attempt could follow. A signal to a supervisor that isn't Slurm's is a person's word."""
    match mode:
        case Mode.BATCH:
            if chain:
                return Way.CHAIN
            return Way.REQUEUE if may_requeue else Way.NONE
        case Mode.LOCAL:
            return Way.NONE if cause in (Cause.PREEMPTED, Cause.TIME_LIMIT, Cause.WARNED) else Way.IN_PLACE
        case Mode.LOGIN:
            # Whether srun's own job was preempted or cancelled by its owner can't be told from here.
            ending = cause in (Cause.PREEMPTED, Cause.TIME_LIMIT, Cause.WARNED)
            return Way.NONE if ending else Way.IN_PLACE
        case Mode.ALLOCATION:
            ending = cause in (Cause.PREEMPTED, Cause.TIME_LIMIT, Cause.NODE_FAILURE)
            return Way.NONE if ending else Way.IN_PLACE


def default_run_directory(request: Request, facts: JobFacts | None, working_directory: Path) -> Path:
    """`runs/<job name>` below the folder of submission, `…/<task>` for an array element.

    A name that Slurm made up says nothing: the training script's name is taken then.
    """
    name = request.srun.value("job-name") or (facts.name if facts is not None else "")
    if name in _NAMELESS:
        name = PurePath(request.command.script).stem
    name = name.replace("/", "_").strip(". ") or "run"
    top = Path(facts.submit_directory) if facts is not None and facts.submit_directory else working_directory
    folder = top / "runs" / name
    return folder / str(facts.array_task) if facts is not None and facts.array_task is not None else folder


@dataclass(frozen=True, slots=True)
class Shape:
    """How many nodes, and how many ranks on each."""

    nodes: int
    nproc_per_node: int | str
    """A number, or torchrun's `gpu`, `cpu` or `auto`: only the node can count those."""
    cpus_per_task: int | None
    tasks: int | None = None
    """How many tasks the job's environment asks for; of a plain command only."""


def choose_shape(request: Request, facts: JobFacts | None, mode: Mode) -> Shape:
    """Nodes from srun's options or the job; ranks from the user's word, the GPUs, or the tasks a node was to have."""
    nodes = _nodes(request, facts, mode)
    if request.command.kind is CommandKind.TASK:
        return Shape(nodes, 1, None, facts.tasks if facts is not None else None)
    cpus = facts.cpus_per_node if facts is not None else None
    for word in (request.nproc_per_node, request.command.nproc_per_node):
        if word is None:
            continue
        if word.isdigit() and int(word) > 0:
            return Shape(nodes, int(word), cpus)
        if word in ("gpu", "auto", "cpu"):
            return Shape(nodes, word, cpus)
        raise ConfigurationError(f"--nproc-per-node={word}: not a number of ranks, nor gpu, cpu or auto")
    if facts is not None and facts.gpus_per_node:
        return Shape(nodes, facts.gpus_per_node, cpus)
    each = request.srun.value("ntasks-per-node")
    if each is not None and each.isdigit():
        return Shape(nodes, int(each), cpus)
    if facts is not None and facts.tasks_per_node:
        return Shape(nodes, facts.tasks_per_node, cpus)
    return Shape(nodes, 1, cpus)


def _nodes(request: Request, facts: JobFacts | None, mode: Mode) -> int:
    if mode is Mode.LOCAL:
        return 1
    here = facts.node_count if facts is not None else None
    words = ((request.srun.value("nodes"), "srun's --nodes"), (request.command.nnodes, "torchrun's --nnodes"))
    for text, source in words:
        if text is None or text.startswith("$"):
            continue
        first = text.partition("-")[0].partition(":")[0]
        if not first.isdigit() or int(first) < 1:
            raise ConfigurationError(f"{source}={text}: not a number of nodes")
        if here is not None and int(first) > here:
            raise ConfigurationError(f"{source}={text}, but job {facts.job if facts else ''} has {here} nodes")
        return int(first)
    return here if here is not None else 1
