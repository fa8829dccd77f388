"""What follows from a preflight: whether the attempt starts its step, on which nodes, and otherwise what becomes of it.

Pure. A node's problem is mended by another node, a user's problem by none. What fails on most nodes is no node's fault,
whatever its check thinks: leaving nodes out would go through the whole cluster and mend nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_resilience.manifest.preflight_verdict import PreflightVerdict, Then, Unfit
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.result import Outcome, Problem, Result
from slurm_resilience.supervisor.request import OnPreflight

COULD_NOT_RUN = 3
"""Preflight's exit code, where it found out nothing at all."""
SAID = 10
"""So many warnings are worth lines in the job's output; the report has them all."""


@dataclass(frozen=True, slots=True)
class NotRun:
    """Preflight found out nothing: that is no proof of anything."""

    why: str


@dataclass(frozen=True, slots=True)
class Room:
    """How the attempt could do without a node."""

    needed: int
    """So many nodes the step has."""
    to_choose: bool
    """Whether the step may run on any of the job's nodes: neither is it as large as the job, nor were nodes named."""
    elsewhere: bool
    """Whether an attempt after this one can get other nodes."""


def weigh(
    found: Report | NotRun, *, wish: OnPreflight, room: Room, before: PreflightVerdict | None = None
) -> PreflightVerdict:
    """`before`: what the preflight of the attempt before this one came to."""
    if isinstance(found, NotRun) or found.exit_code == COULD_NOT_RUN:
        why = found.why if isinstance(found, NotRun) else found.sentence
        return _in_doubt(f"preflight could not run: {why}", wish, ())
    failed = [result for result in found.results if result.finding.outcome is Outcome.FAIL]
    warnings = _sentences(found, Outcome.WARN)
    if not failed:
        broken = _sentences(found, Outcome.BROKEN)
        if broken:
            return _in_doubt(f"preflight could not find out everything: {broken[0]}", wish, found.nodes, warnings)
        return PreflightVerdict(Then.GO_ON, found.sentence, found.nodes, warnings=warnings)
    match wish:
        case OnPreflight.WARN:
            told = _capped([*map(_sentence, failed), *warnings])
            return PreflightVerdict(Then.GO_ON, found.sentence, found.nodes, warnings=told)
        case OnPreflight.STOP:
            return _refuse(found, failed, warnings, _first(failed))
        case OnPreflight.EXCLUDE:
            return _of_failures(found, failed, warnings, room, before)


def _in_doubt(
    because: str, wish: OnPreflight, nodes: tuple[str, ...], warnings: tuple[str, ...] = ()
) -> PreflightVerdict:
    if wish is OnPreflight.STOP:
        remedy = "look into it with `slurm-resilience preflight`, or say --on-preflight=exclude"
        return PreflightVerdict(Then.REFUSE, because, nodes, remedy=remedy, warnings=warnings)
    return PreflightVerdict(Then.GO_ON, because, nodes, warnings=_capped([because, *warnings]))


def _of_failures(
    found: Report,
    failed: Sequence[Result],
    warnings: tuple[str, ...],
    room: Room,
    before: PreflightVerdict | None,
) -> PreflightVerdict:
    nobodys = [result for result in failed if not _is_of_a_node(result, found)]
    if nobodys:  # another node would not help, whatever else is wrong with these
        return _refuse(found, nobodys, warnings, _first(nobodys))
    unfit = _unfit(found, failed)
    bad, all_nodes = [each.node for each in unfit], len(found.nodes)
    if all_nodes > 1 and 2 * len(bad) > all_nodes:
        because = f"preflight fails on {len(bad)} of {all_nodes} nodes, so that it is no node's fault: {_first(failed)}"
        return _refuse(found, failed, warnings, because)
    if _followed_us(found, failed, before):
        because = f"preflight fails on one node after the other, so that it is no node's fault: {_first(failed)}"
        return _refuse(found, failed, warnings, because)
    names = ", ".join(bad)
    checks = _checks(failed)
    if room.to_choose and all_nodes - len(bad) >= room.needed:
        because = f"the step runs without {names}: {_first(failed)}"
        return PreflightVerdict(Then.GO_ON_WITHOUT, because, found.nodes, unfit, checks, _remedy(failed), warnings)
    if not room.elsewhere:
        because = f"{_first(failed)}; this job can't get another node by itself"
        return _refuse(found, failed, warnings, because)
    because = f"the next attempt runs without {names}: {_first(failed)}"
    return PreflightVerdict(Then.LEAVE_OUT, because, found.nodes, unfit, checks, _remedy(failed), warnings)


def _is_of_a_node(result: Result, found: Report) -> bool:
    """What a check says of a node that is not one of ours is nothing that leaving it out would mend."""
    return result.finding.problem is Problem.NODE and result.node in found.nodes


def _followed_us(found: Report, failed: Sequence[Result], before: PreflightVerdict | None) -> bool:
    """A job of one node has no majority: the same failure on two nodes in a row stands for it."""
    if before is None or before.then is not Then.LEAVE_OUT or len(found.nodes) > 1:
        return False
    elsewhere = not set(found.nodes) & set(before.nodes)
    return elsewhere and bool(set(_checks(failed)) & set(before.checks))


def _refuse(found: Report, failed: Sequence[Result], warnings: tuple[str, ...], because: str) -> PreflightVerdict:
    return PreflightVerdict(
        Then.REFUSE, because, found.nodes, checks=_checks(failed), remedy=_remedy(failed), warnings=warnings
    )


def _unfit(found: Report, failed: Sequence[Result]) -> tuple[Unfit, ...]:
    """In the order of the job's nodes."""
    return tuple(
        Unfit(node, findings)
        for node in found.nodes
        if (findings := tuple(f"{each.check}: {each.finding.sentence}" for each in failed if each.node == node))
    )


def _checks(results: Sequence[Result]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.check for result in results))


def _remedy(failed: Sequence[Result]) -> str | None:
    return next((result.finding.remedy for result in failed if result.finding.remedy), None)


def _first(failed: Sequence[Result]) -> str:
    more = len(failed) - 1
    return _sentence(failed[0]) + (f" (and {more} more)" if more else "")


def _sentence(result: Result) -> str:
    """`n2: storage: no space is left`."""
    where = "" if result.node is None else f"{result.node}: "
    return f"{where}{result.check}: {result.finding.sentence}"


def _sentences(found: Report, outcome: Outcome) -> tuple[str, ...]:
    return _capped([_sentence(result) for result in found.results if result.finding.outcome is outcome])


def _capped(sentences: Sequence[str]) -> tuple[str, ...]:
    more = len(sentences) - SAID
    return (*sentences[:SAID], *([f"and {more} more, in the report"] if more > 0 else []))
