"""Check `gpu`: all GPUs of the job are there, and none asks for help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.gpu.device import Driver, DriverMissing, Gpu, LibraryMissing
from slurm_resilience.preflight.checks.gpu.expected import GIVEN, VISIBLE, chosen, expected, surely_ours, visible
from slurm_resilience.preflight.checks.gpu.furniture import Furniture, furniture
from slurm_resilience.preflight.checks.gpu.nvml import Nvml
from slurm_resilience.preflight.checks.gpu.verdict import LEAVE_OUT, verdicts
from slurm_resilience.preflight.checks.summary import counted, summed_up
from slurm_resilience.preflight.result import Finding, Outcome, Problem, broken, fail, skipped

Opener = Callable[[], AbstractContextManager[Driver]]


def gpu(context: Context, tell: Tell, opener: Opener = Nvml) -> Iterable[Finding]:
    count = expected(context)
    if count == 0:
        return [skipped("no GPU is expected here")]
    seen = furniture(context.root)
    tell("asking NVIDIA's driver")
    try:
        with opener() as driver:
            gpus = driver.gpus()
            version = driver.version()
    except DriverMissing as missing:
        return _without_driver(str(missing), isinstance(missing, LibraryMissing), count, seen)
    ours = chosen(gpus, context)
    problems = [*_missing(context, ours, count), *verdicts(ours)]
    if not surely_ours(ours, context):
        problems = [_perhaps(problem) for problem in problems]
    return summed_up(problems, _fine(ours), _facts(ours, version))


def _perhaps(problem: Finding) -> Finding:
    """A card that is perhaps another job's is no reason to leave the node out."""
    sentence = f"{problem.sentence} (Slurm doesn't say whether it is this job's)"
    return replace(problem, outcome=Outcome.WARN, sentence=sentence)


def _without_driver(why: str, only_the_library: bool, count: int | None, seen: Furniture) -> list[Finding]:
    if count is None and seen.of_the_driver:
        return [broken(f"{counted(seen.of_the_driver, 'GPU')} here, and none looked at: {why}")]
    if count is None:
        return [skipped(f"there are no GPUs to ask: {why}")]
    wanted = counted(count, "GPU")
    if seen.of_amd and not seen.on_the_bus:
        return [skipped(f"{wanted} of AMD: only those of NVIDIA are looked at")]
    if only_the_library:
        if seen.of_the_driver and seen.of_the_driver < count:  # what can be seen without it
            return [_too_few(f"{wanted} expected, and the driver has {seen.of_the_driver}")]
        return [broken(f"{wanted} expected and none looked at: {why} (pip install 'slurm-resilience[gpu]')")]
    found = f"{counted(seen.on_the_bus, 'card')} on the bus, {counted(seen.device_files, 'device file')}"
    return [_too_few(f"{wanted} expected and none can be asked: {why} ({found})")]


def _missing(context: Context, ours: Sequence[Gpu], count: int | None) -> list[Finding]:
    named, given = visible(context.environment), first_number(context.environment, GIVEN)
    if named is not None and given is not None and len(named) > given:
        return [
            fail(
                Problem.USER,
                f"{VISIBLE} names {counted(len(named), 'GPU')}, and Slurm gave {given}",
                f"leave {VISIBLE} to Slurm: unset it in the job script",
            )
        ]
    # Who hides GPUs from himself gets what he asks for. A slice of one counts as one in Slurm, and not here.
    if named is not None and (count is None or len(named) < count):
        count = len(named)
    if count is None or len(ours) >= count or any(each.partitioned for each in ours):
        return []
    return [_too_few(f"{counted(len(ours), 'GPU')} where {counted(count, 'GPU')} should be")]


def _too_few(sentence: str) -> Finding:
    return fail(Problem.NODE, sentence, LEAVE_OUT)


def _fine(ours: Sequence[Gpu]) -> str:
    if not ours:
        return "no GPU is expected here"
    models = Counter(each.model or "GPU" for each in ours)
    told = ", ".join(f"{number} × {model}" for model, number in sorted(models.items()))
    errors = sum(link.errors or 0 for each in ours for link in each.links)
    # Errors alone don't seem to hurt a training (imbue): they are told, and no more.
    return f"{told}; {counted(errors, 'NVLink error')} since the driver was loaded" if errors else told


def _facts(ours: Sequence[Gpu], version: str | None) -> dict[str, Any]:
    temperatures = [each.temperature_c for each in ours if each.temperature_c is not None]
    return {
        "gpus": len(ours),
        "models": sorted({each.model for each in ours if each.model}),
        "driver": version,
        "total_bytes": sum(each.total_bytes or 0 for each in ours) or None,
        "hottest_c": max(temperatures, default=None),
        "nvlinks_active": sum(link.active for each in ours for link in each.links),
        "nvlink_errors": sum(link.errors or 0 for each in ours for link in each.links),
        "ecc": all(each.ecc for each in ours) if any(each.ecc is not None for each in ours) else None,
        "persistence": all(each.persistent for each in ours) if any(e.persistent is not None for e in ours) else None,
    }
