"""How many GPUs the job has on this node, and which of those that the driver shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.checks.gpu.device import Gpu

VISIBLE = "CUDA_VISIBLE_DEVICES"
GIVEN = "SLURM_GPUS_ON_NODE"
_NUMBERS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_NONE = frozenset({"", "-1", "NoDevFiles"})


def visible(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """What CUDA_VISIBLE_DEVICES names: numbers or UUIDs. None: it says nothing, and all GPUs are visible."""
    said = environment.get(VISIBLE)
    if said is None:
        return None
    return () if said.strip() in _NONE else tuple(name.strip() for name in said.split(",") if name.strip())


def expected(context: Context) -> int | None:
    """As many as the job has been given here. None: nobody says."""
    if context.gpus is not None:
        return context.gpus
    given = first_number(context.environment, GIVEN)
    if given is not None:
        return given
    named = visible(context.environment)
    return None if named is None else len(named)


def chosen(gpus: Sequence[Gpu], context: Context) -> tuple[Gpu, ...]:
    """Those of `gpus` that are the job's: all that the driver shows, unless the environment names some of them.

    A lost one has no UUID, and may be any of those that are named: it is never left out for that.
    """
    named = visible(context.environment)
    count = expected(context)
    if named is None and count is not None and len(gpus) > count:  # others' are to be seen, too
        named = _given_by_number(context.environment)
    if named is None:
        return tuple(gpus)
    numbers = {int(name) for name in named if name.isdecimal()}
    uuids = tuple(name for name in named if not name.isdecimal())
    return tuple(
        gpu
        for gpu in gpus
        if gpu.index in numbers
        or (gpu.uuid is None and uuids)
        or any((gpu.uuid or "").startswith(name) for name in uuids)
        or (gpu.partitioned and any(name.startswith("MIG-") for name in uuids))
    )


def surely_ours(ours: Sequence[Gpu], context: Context) -> bool:
    """Whether `ours` are the job's. A job of Slurm's that was given none, or fewer, may see cards of other jobs."""
    if "SLURM_JOB_ID" not in context.environment:
        return True
    count = expected(context)
    return count is not None and len(ours) <= count


def _given_by_number(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Slurm's own numbers, which count all cards of the node: only where all are to be seen do they mean the same."""
    for name in _NUMBERS:
        numbers = tuple(part.strip() for part in environment.get(name, "").split(","))
        if all(number.isdecimal() for number in numbers):
            return numbers
    return None
