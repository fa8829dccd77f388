"""What all results together mean: an exit code, the nodes to leave out, one sentence. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from slurm_resilience.preflight.result import Outcome, Problem, Result


class Exit(enum.IntEnum):
    OK = 0
    WARN = 1
    FAIL = 2
    COULD_NOT_RUN = 3


_WORDS = {Exit.OK: "ok", Exit.WARN: "warn", Exit.FAIL: "fail", Exit.COULD_NOT_RUN: "broken"}
_NAMED = 4
"""So many nodes or checks are named in the closing sentence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    exit_code: Exit
    sentence: str
    exclude: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        return _WORDS[self.exit_code]


def could_not_run(why: str) -> Verdict:
    return Verdict(Exit.COULD_NOT_RUN, why)


def judge(results: Sequence[Result], nodes: Sequence[str]) -> Verdict:
    """`nodes`: all that were to be looked at, the silent ones too."""
    failed = [result for result in results if result.finding.outcome is Outcome.FAIL]
    if failed:
        return Verdict(Exit.FAIL, _of_failures(failed, nodes), unfit(results, nodes))
    warned = _checks(result for result in results if result.finding.outcome is Outcome.WARN)
    broken = _checks(result for result in results if result.finding.outcome is Outcome.BROKEN)
    if warned or broken:
        parts = [_warnings(warned)] if warned else []
        parts += [f"{_listed(broken)} could not find out"] if broken else []
        return Verdict(Exit.WARN, f"{_count(nodes)} can be used: {'; '.join(parts)}")
    return Verdict(Exit.OK, f"{_count(nodes)} {'is' if len(nodes) == 1 else 'are'} fit for the training")


def unfit(results: Iterable[Result], nodes: Sequence[str]) -> tuple[str, ...]:
    """In the order of `nodes`: those with a failure that is the node's own."""
    named = {
        result.node
        for result in results
        if result.finding.outcome is Outcome.FAIL and result.finding.problem is Problem.NODE
    }
    known = [node for node in nodes if node in named]
    return tuple(known + sorted(node for node in named if node is not None and node not in nodes))


def _of_failures(failed: Sequence[Result], nodes: Sequence[str]) -> str:
    bad = unfit(failed, nodes)
    users = _checks(result for result in failed if result.finding.problem is not Problem.NODE)
    rest = _checks(result for result in failed if result.finding.problem is Problem.NODE and result.node is None)
    parts = []
    if bad:
        left = len(nodes) - len(bad)
        others = f"; {left} of {len(nodes)} nodes {'is' if left == 1 else 'are'} without such a failure" if left else ""
        parts.append(f"{_listed(bad)} {'is' if len(bad) == 1 else 'are'} not fit for the training{others}")
    if rest:
        parts.append(f"something is wrong between the nodes ({_listed(rest)})")
    if users:
        parts.append(f"the training would fail on any node: {_listed(users)}")
    return "; ".join(parts)


def _warnings(warned: Collection[str]) -> str:
    return f"{'a warning' if len(warned) == 1 else 'warnings'} of {_listed(warned)}"


def _checks(results: Iterable[Result]) -> list[str]:
    return list(dict.fromkeys(result.check for result in results))


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:_NAMED]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _count(nodes: Sequence[str]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"all {len(nodes)} nodes"
