"""Check `power`: the supply behind this node, where it has one that can be asked (NUT)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn

_ANSWER_S = 2.0
_LEAVE_OUT = "leave the node out (--exclude) and tell the admins"


def power(_context: Context, tell: Tell, runner: Callable[..., Completed] = run) -> Iterable[Finding]:
    tell("running upsc")
    try:
        listing = runner(["upsc", "-l"], timeout_s=_ANSWER_S)
    except CommandError as error:
        return [skipped(f"no power supply to ask: {error}")]
    names = [line.strip() for line in listing.out.splitlines() if line.strip() and " " not in line.strip()]
    if listing.code != 0 or not names:
        return [skipped(f"no power supply to ask: {listing.complaint}" if listing.code else "no power supply to ask")]
    states: dict[str, str] = {}
    for name in names:
        tell(f"asking power supply {name}")
        try:
            done = runner(["upsc", name, "ups.status"], timeout_s=_ANSWER_S)
        except CommandError:
            continue
        if done.code == 0:
            states[name] = done.out.strip()
    if not states:
        return [skipped(f"the power supply {', '.join(names)} doesn't say how it stands")]
    fine = ", ".join(f"{name}: {state}" for name, state in states.items())
    return summed_up(judge(states), fine, {"states": states})


def judge(states: Mapping[str, str]) -> list[Finding]:
    """NUT's words: OL on line, OB on battery, LB battery low, RB replace battery, FSD shutting down."""
    problems = []
    for name, state in states.items():
        words = set(state.split())
        if words & {"LB", "FSD"}:
            text = f"power supply {name} is about to go out ({state})"
            problems.append(fail(Problem.NODE, text, _LEAVE_OUT))
        elif "OB" in words:
            text = f"power supply {name} is on its battery ({state})"
            problems.append(warn(Problem.NODE, text, "the node may go out soon: leave it out (--exclude), or wait"))
        elif "RB" in words:
            text = f"power supply {name} wants a new battery ({state})"
            problems.append(warn(Problem.NODE, text, "tell the admins"))
    return problems
