"""All results as rows for people: one for a check where all nodes are alike, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slurm_resilience.preflight.result import Outcome, Result

_ORDER = (Outcome.FAIL, Outcome.BROKEN, Outcome.WARN, Outcome.OK, Outcome.SKIPPED)
_WORDS = {Outcome.FAIL: "FAIL", Outcome.BROKEN: "BROKEN", Outcome.WARN: "WARN", Outcome.OK: "ok"}


@dataclass(frozen=True, slots=True)
class Row:
    check: str
    outcome: Outcome
    nodes: str | None
    """Folded; None: it is about the job as a whole."""
    what: str

    @property
    def word(self) -> str:
        return _WORDS.get(self.outcome, self.outcome.value)


def rows(
    results: Sequence[Result], nodes: Sequence[str], about: Mapping[str, str], fold: Callable[[Sequence[str]], str]
) -> list[Row]:
    """`about`: in a few words, what each check looks at. `fold` writes nodes as a list of Slurm's."""
    order = {check: number for number, check in enumerate(dict.fromkeys(result.check for result in results))}
    groups: dict[tuple[str, Outcome, str], list[Result]] = {}
    for result in results:
        finding = result.finding
        said = "" if finding.outcome in (Outcome.OK, Outcome.SKIPPED) else finding.sentence
        groups.setdefault((result.check, finding.outcome, said), []).append(result)
    made = [
        Row(check, outcome, _nodes(group, nodes, fold), _what(check, group, about))
        for (check, outcome, _), group in groups.items()
    ]
    good = {row.check for row in made if row.outcome is not Outcome.SKIPPED}
    # What a check had nothing to do for is only said where it had nothing to do at all.
    shown = [row for row in made if row.outcome is not Outcome.SKIPPED or row.check not in good]
    return sorted(shown, key=lambda row: (_ORDER.index(row.outcome), order[row.check]))


def _nodes(group: Sequence[Result], nodes: Sequence[str], fold: Callable[[Sequence[str]], str]) -> str | None:
    concerned = [node for node in nodes if any(result.node == node for result in group)]
    concerned += sorted({result.node for result in group if result.node is not None} - set(nodes))
    if not concerned:
        return None
    if len(concerned) > 1 and len(concerned) == len(nodes):
        return f"{len(nodes)} nodes"
    return fold(concerned)


def _what(check: str, group: Sequence[Result], about: Mapping[str, str]) -> str:
    finding = group[0].finding
    if finding.outcome not in (Outcome.OK, Outcome.SKIPPED):
        return f"{finding.sentence} [{finding.problem.value}]" if finding.problem else finding.sentence
    sentences = dict.fromkeys(result.finding.sentence for result in group)
    return next(iter(sentences)) if len(sentences) == 1 else about.get(check, next(iter(sentences)))


def remedies(results: Sequence[Result], nodes: Sequence[str], fold: Callable[[Sequence[str]], str]) -> list[str]:
    """Each once, with the checks and nodes that it is for."""
    wanted: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: _ORDER.index(result.finding.outcome)):
        if result.finding.remedy and result.finding.outcome in (Outcome.FAIL, Outcome.WARN):
            wanted.setdefault(result.finding.remedy, []).append(result)
    lines = []
    for remedy, group in wanted.items():
        checks = ", ".join(dict.fromkeys(result.check for result in group))
        concerned = _nodes(group, nodes, fold)
        lines.append(f"{checks}{f' on {concerned}' if concerned else ''}: {remedy}")
    return lines


def slowest(results: Sequence[Result]) -> Result | None:
    timed = [result for result in results if result.took_s is not None]
    return max(timed, key=lambda result: result.took_s or 0.0, default=None)
