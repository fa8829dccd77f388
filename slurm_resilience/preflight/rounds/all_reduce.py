"""Whether the nodes can add up numbers together, rightly and as fast as each other. Pure; see `reducing`.

Groups of two first, each node with two others in turn, then all: whoever is slow or wrong with both partners is named,
and they are not. Speeds are judged against this job's own and against what was recorded on the node before, never
against a number of ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from slurm_resilience.preflight.result import Result, broken, skipped
from slurm_resilience.preflight.round import Answer, Card, Round
from slurm_resilience.preflight.rounds.all_reduce_judgement import CHECK, Judgement
from slurm_resilience.preflight.rounds.peers import addresses_to_try, listed, names_of, same_host

SHARE = 0.4
"""Of the whole time limit: 24 s of the usual minute. Most of it is torch being loaded by nodes that are busy."""
_PART = "slurm_resilience.preflight.rounds.reducing"


def share_of(time_limit_s: float) -> float:
    """How long the all-reduce may take, of so long a preflight."""
    return SHARE * time_limit_s


@dataclass(frozen=True, slots=True)
class Ready:
    """The round before: who has torch, and where to meet."""

    what: ClassVar[str] = "the nodes add up rightly together, none much slower"
    baselines: Mapping[str, Mapping[str, Any]]
    limit_s: float
    """Of the all-reduce itself."""
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    name: str = CHECK
    function: str = f"{_PART}:ready"
    timeout_s: float = 12.0

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        if len(cards) < 2:
            return {}
        return {task: {"port": task == min(cards), "key": self.key} for task in cards}

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        for task, answer in sorted(answers.items()):
            if answer.values is None:
                yield Result(CHECK, cards[task].node, broken(f"torch was not looked for: {answer.trouble}"))
            elif "error" in answer.values:
                why = f"torch was not looked for with {answer.values['python']}: {answer.values['error']}"
                yield Result(CHECK, cards[task].node, broken(why))
        said = {task: answer.values for task, answer in answers.items() if answer.values is not None}
        without = [task for task in sorted(said) if not said[task]["torch"] and "error" not in said[task]]
        if without:
            others = f"on {listed([cards[task].node for task in without])} " if len(without) < len(said) else ""
            yield Result(CHECK, None, skipped(f"there is no torch {others}in {said[without[0]]['python']}"))

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        said = {task: answer.values for task, answer in answers.items() if answer.values is not None}
        have = tuple(task for task in sorted(said) if said[task]["torch"])
        port = next((values["port"] for values in said.values() if values.get("port")), None)
        if len(have) < 2 or have[0] != min(cards) or len(have) < len(said) or port is None:
            return None
        return AllReduce(self.baselines, have, int(port), self.limit_s)


@dataclass(frozen=True, slots=True)
class AllReduce:
    baselines: Mapping[str, Mapping[str, Any]]
    tasks: tuple[int, ...]
    """By rank."""
    port: int
    limit_s: float
    name: str = CHECK
    function: str = f"{_PART}:reduce"

    @property
    def timeout_s(self) -> float:
        return self.limit_s + 8

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        if not set(self.tasks) <= set(cards):
            return {}  # lost since: that is said where it was noticed, and a group without it is another one
        first = cards[self.tasks[0]]
        crowded = len({cards[task].boot_id for task in self.tasks}) < len(self.tasks)
        return {
            task: {
                "rank": rank,
                "ranks": len(self.tasks),
                "names": names_of(first),
                "addresses": addresses_to_try(first, cards) or ["127.0.0.1"],
                "same_host": same_host(first, cards[task]),
                "port": self.port,
                "one_by_one": crowded,
                "limit_s": self.limit_s,
            }
            for rank, task in enumerate(self.tasks)
        }

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        return Judgement(self.tasks, self.baselines, cards, answers).results()

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return None
