"""Checks on the nodes and rounds between them: given out, heard, and what is missing at the end named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_resilience.preflight.baseline import for_the_nodes
from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.conversation import Conversation
from slurm_resilience.preflight.request import PreflightRequest, Registry
from slurm_resilience.preflight.result import Result, broken
from slurm_resilience.preflight.round import Answer, Round
from slurm_resilience.preflight.wire import check_value, finding_of

_SLACK_S = 6.0
"""How much later than its own time-out a node's answer may come in. A node that is alive says so every second."""
_LONGEST_CHAIN = 50
"""Of rounds that follow from each other."""


@dataclass(slots=True)
class Gathering:
    talk: Conversation
    request: PreflightRequest
    end_s: float
    """Of all time, on the monotonic clock."""
    results: list[Result]
    say: Callable[[str], None]
    _round: int = 0
    _named: str = ""
    """The round that was said to have begun: what follows from it has its name."""

    def run_checks(self, checks: Sequence[Check], baselines: Mapping[str, Any]) -> None:
        """On all nodes at once. Raises Interrupted."""
        if not checks:
            return
        self.say(f"on each node: {', '.join(check.name for check in checks)}")
        talk = self.talk
        missing = {task: [check.name for check in checks] for task in talk.living}

        def hear(task: int, value: Mapping[str, Any]) -> None:
            match value:
                case {"kind": "result", "check": str(check), "finding": dict(finding)} if task in talk.nodes:
                    self.results.append(_result(check, talk.nodes[task].card.node, finding, value.get("took_s")))
                case {"kind": "done", "check": str(check)} if check in missing.get(task, ()):
                    missing[task].remove(check)
                case {"kind": "checked"}:
                    missing.pop(task, None)

        values = [check_value(check) for check in checks]
        talk.say({"kind": "checks", "checks": values, "baselines": for_the_nodes(baselines)})
        self._until(missing, self.end_s, hear, "the checks")
        self._name_unfinished({task: names for task, names in missing.items() if task in talk.living})

    def run_round(self, round_: Round, assignments: Mapping[int, Mapping[str, Any]]) -> dict[int, Answer]:
        """Everybody's part of it, at one time. Raises Interrupted."""
        talk = self.talk
        self._round += 1
        number = self._round
        answers: dict[int, Answer] = {}
        waited_for = dict.fromkeys(assignments)

        def hear(task: int, value: Mapping[str, Any]) -> None:
            match value:
                case {"kind": "answer", "number": int(of)} if of == number and task in assignments:
                    answers[task] = Answer(value.get("values"), value.get("trouble"), value.get("took_s"))
                    waited_for.pop(task, None)

        order = {"kind": "round", "number": number, "name": round_.name, "function": round_.function}
        given = {str(task): dict(assignment) for task, assignment in assignments.items()}
        talk.say({**order, "timeout_s": round_.timeout_s, "assignments": given})
        limit_s = min(self.end_s, talk.clock.monotonic_s() + round_.timeout_s + _SLACK_S)
        self._until(waited_for, limit_s, hear, f"round {round_.name}")
        for task in waited_for:
            answers[task] = Answer(None, talk.nodes[task].lost or "it did not answer in time")
        return dict(sorted(answers.items()))

    def begin(self, name: str) -> None:
        if name != self._named:
            self._named = name
            self.say(f"between the nodes: {name}")

    def _until(
        self,
        waited_for: dict[int, Any],
        limit_s: float,
        hear: Callable[[int, Mapping[str, Any]], None],
        during: str,
    ) -> None:
        talk = self.talk
        for task in waited_for:
            talk.nodes[task].heard_s = talk.clock.monotonic_s()  # before it had nothing to say

        limit = self.request.silence_limit_s

        def enough() -> bool:
            talk.lose_the_silent(waited_for, limit, during)
            return not any(task in talk.living for task in waited_for)

        if not talk.listen(enough, limit_s, hear):
            talk.lose_the_silent(waited_for, min(limit, _SLACK_S), during)
        for task in waited_for:
            talk.nodes[task].running = talk.nodes[task].running if task in talk.living else []

    def _name_unfinished(self, missing: Mapping[int, Sequence[str]]) -> None:
        limit = f"when the time limit of {self.request.time_limit_s:g} s was over"
        for task, names in missing.items():
            talk = self.talk.nodes[task]
            told = dict(talk.running)
            for name in names:
                if name in told:
                    doing = f", while {told[name]}" if told[name] else ""
                    sentence = f"it was at work {limit}{doing}"
                else:
                    sentence = f"it had not begun {limit}"
                self.results.append(Result(name, talk.card.node, broken(sentence)))

    @property
    def out_of_time(self) -> bool:
        return self.talk.clock.monotonic_s() >= self.end_s


def run_rounds(gathering: Gathering, rounds: Sequence[Round]) -> None:
    """One after the other, each with what follows from it. Raises Interrupted."""
    for first in rounds:
        round_: Round | None = first
        for _ in range(_LONGEST_CHAIN):
            if round_ is None:
                break
            round_ = _one(gathering, round_)


def _one(gathering: Gathering, round_: Round) -> Round | None:
    """What follows from it. A round that fails itself is BROKEN, and the next one goes on."""
    if gathering.out_of_time:
        sentence = f"it had not begun when the time limit of {gathering.request.time_limit_s:g} s was over"
        gathering.results.append(Result(round_.name, None, broken(sentence)))
        return None
    cards = gathering.talk.living
    try:
        assignments = {task: given for task, given in round_.assignments(cards).items() if task in cards}
    except Exception as error:  # noqa: BLE001  # its own mistake must not cost the others' answers
        gathering.results.append(_raised(round_.name, error))
        return None
    if not assignments:
        return None
    gathering.begin(round_.name)
    answers = gathering.run_round(round_, assignments)
    try:
        gathering.results += round_.judge(cards, answers)
        return round_.following(cards, answers)
    except Exception as error:  # noqa: BLE001
        gathering.results.append(_raised(round_.name, error))
        return None


def _raised(check: str, error: Exception) -> Result:
    return Result(check, None, broken(f"raised {type(error).__name__}: {' '.join(str(error).split())}"))


def judged_across(registry: Registry, results: Sequence[Result], request: PreflightRequest) -> list[Result]:
    try:
        judged = registry.across(results)
    except Exception as error:  # noqa: BLE001  # its own mistake must not cost the others' answers
        return [_raised("across", error)]
    return [result for result in judged if result.check not in request.skip]


def _result(check: str, node: str, finding: Mapping[str, Any], took_s: Any) -> Result:
    """Of a node's own words; a finding may be about another node."""
    try:
        said = finding_of(finding)
    except (KeyError, TypeError, ValueError):
        said = broken("said something that is no finding")
    return Result(check, said.node or node, said, took_s if isinstance(took_s, float) else None)
