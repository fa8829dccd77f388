"""What is wrong with the GPUs of a job. Pure.

The thresholds are those that the field has agreed on (docs/preflight_checks.md names who). Corrected errors, and clocks
that are low because nothing runs, are nobody's problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_resilience.preflight.checks.gpu.device import Gpu
from slurm_resilience.preflight.checks.summary import counted, listed
from slurm_resilience.preflight.result import Finding, Problem, fail, warn

LEAVE_OUT = "leave the node out (--exclude) and tell the admins"
RESET = f"{LEAVE_OUT}: the GPU must be reset (nvidia-smi --gpu-reset) or the node started anew"

_ACTIONS = {
    1: "a reset of the GPU",
    2: "a start of the node",
    3: "its jobs drained, for its links to other GPUs are broken",
    4: "its jobs drained and a reset",
    5: "a recovery of the IMEX domain",
    6: "a reset of its bus",
    7: "a start of the whole system",
}
"""NVML_GPU_RECOVERY_ACTION_*, of driver 570 and newer. 0 is none."""
_SLOWDOWNS = ((0x8, "hardware slowdown"), (0x40, "too hot"), (0x80, "the power supply asks it to brake"))
"""nvmlClocksEventReason HwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown."""
_MOST_REMAPPED_ROWS = 512  # DCGM and Azure
_MOST_RETIRED_PAGES = 63  # DCGM: of 64
_MANY_RETIRED_PAGES = 15  # DCGM, of double bit errors
_NEAR_SLOWDOWN_C = 5  # ours


def verdicts(gpus: Sequence[Gpu]) -> list[Finding]:
    problems = [problem for gpu in gpus for problem in _of_one(gpu)]
    return problems + list(_of_links(gpus))


def name_of(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({gpu.bus})" if gpu.bus else f"GPU {gpu.index}"


def _of_one(gpu: Gpu) -> Iterator[Finding]:
    who = name_of(gpu)
    if gpu.lost is not None:
        yield fail(Problem.NODE, f"{who} doesn't answer: {gpu.lost}", LEAVE_OUT)
        return
    if gpu.recovery_action:
        wanted = _ACTIONS.get(gpu.recovery_action)
        if wanted is None:
            yield warn(
                Problem.NODE, f"{who}: its driver asks for action {gpu.recovery_action}, unknown here", LEAVE_OUT
            )
        else:
            yield fail(Problem.NODE, f"{who}: its driver asks for {wanted}", LEAVE_OUT)
    yield from _of_memory(gpu, who)
    if gpu.slowdown is not None and (why := [text for bit, text in _SLOWDOWNS if gpu.slowdown & bit]):
        yield warn(
            Problem.NODE,
            f"{who} runs slower than it could: {', '.join(why)}",
            "tell the admins: cooling or power is short",
        )
    elif (
        gpu.temperature_c is not None
        and gpu.slowdown_at_c
        and gpu.temperature_c >= gpu.slowdown_at_c - _NEAR_SLOWDOWN_C
    ):
        yield warn(
            Problem.NODE,
            f"{who} has {gpu.temperature_c} °C before the training has begun, and slows down at {gpu.slowdown_at_c} °C",
            "tell the admins: cooling is short",
        )


def _of_memory(gpu: Gpu, who: str) -> Iterator[Finding]:
    if gpu.uncorrectable_errors:
        errors = counted(gpu.uncorrectable_errors, "uncorrectable memory error")
        yield fail(Problem.NODE, f"{who} had {errors} since its driver was loaded", RESET)
    if gpu.remap_failed:
        yield fail(Problem.NODE, f"{who} could not replace a bad row of its memory", LEAVE_OUT)
    if gpu.remap_pending:
        yield fail(Problem.NODE, f"{who}: a bad row of its memory waits to be replaced", RESET)
    if gpu.remapped_rows is not None and gpu.remapped_rows >= _MOST_REMAPPED_ROWS:
        yield fail(
            Problem.NODE, f"{who} has replaced {gpu.remapped_rows} rows of its memory: it is worn out", LEAVE_OUT
        )
    if gpu.retirement_pending:
        yield fail(Problem.NODE, f"{who}: bad pages of its memory wait to be retired", RESET)
    if gpu.all_retired_pages is not None and gpu.all_retired_pages >= _MOST_RETIRED_PAGES:
        yield fail(
            Problem.NODE, f"{who} has retired {gpu.all_retired_pages} pages of its memory: it is worn out", LEAVE_OUT
        )
    elif gpu.retired_pages is not None and gpu.retired_pages > _MANY_RETIRED_PAGES:
        yield warn(
            Problem.NODE,
            f"{who} has retired {gpu.retired_pages} pages for double bit errors",
            "tell the admins: it wears out",
        )
    if gpu.ecc is not None and gpu.ecc_after_reset is not None and gpu.ecc != gpu.ecc_after_reset:
        now, then = ("on", "off") if gpu.ecc else ("off", "on")
        yield warn(Problem.NODE, f"{who}: error correction is {now}, and {then} after its next reset", RESET)


def _of_links(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """A GPU is held against the others of its model: bridges that nobody bought leave links inactive, rightly."""
    linked = [gpu for gpu in gpus if gpu.links]
    most = {gpu.model: 0 for gpu in linked}
    for gpu in linked:
        most[gpu.model] = max(most[gpu.model], _active(gpu))
    alike = [gpu for gpu in linked if 0 < _active(gpu) == most[gpu.model] < len(gpu.links)]
    for gpu in linked:
        if _active(gpu) < most[gpu.model]:
            down = listed(link.number for link in gpu.links if not link.active)
            yield fail(
                Problem.NODE,
                f"{name_of(gpu)} has {_active(gpu)} active NVLinks where others have {most[gpu.model]}; down: {down}",
                LEAVE_OUT,
            )
    if alike:
        active, all_ = _active(alike[0]), len(alike[0].links)
        yield warn(
            Problem.NODE,
            f"only {active} of {all_} NVLinks are active, on {counted(len(alike), 'GPU')} alike",
            "compare with other nodes of this kind: right where bridges are missing, wrong where GPUs meet in a switch",
        )


def _active(gpu: Gpu) -> int:
    return sum(link.active for link in gpu.links)
