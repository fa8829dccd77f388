"""Whether the run directory is one and the same for all nodes. Pure; the files are `sharing`'s business.

Four short rounds: all look for what is not there yet, the first node makes it, the others look for it and leave their
own, the first looks for that and removes everything. A word in the file, not its name, says that it is the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from slurm_resilience.preflight.result import Finding, Problem, Result, broken, fail, ok, skipped, warn
from slurm_resilience.preflight.round import Answer, Card, Round
from slurm_resilience.preflight.rounds.peers import listed

CHECK = "shared-storage"
LATE_S = 1.0
CONTENDERS = 8
"""So many try to lock it: each holds it for a moment, and all must have had it before the round is over."""
_PART = "slurm_resilience.preflight.rounds.sharing"
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class _Shared:
    run_dir: Path
    word: str
    name: str = CHECK
    timeout_s: float = 12.0

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        """Nothing yet: what went wrong here is said by the round that misses it."""
        return [
            Result(CHECK, cards[task].node, broken(f"{self.run_dir} was not looked at: {answer.trouble}"))
            for task, answer in sorted(answers.items())
            if answer.values is None
        ]


@dataclass(frozen=True, slots=True)
class LookBefore(_Shared):
    """The first of the rounds."""

    what: ClassVar[str] = "the run directory is the same on all nodes"
    word: str = field(default_factory=lambda: secrets.token_hex(8))
    function: str = f"{_PART}:look_before"

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        if len(cards) < 2:
            return {}
        return {task: {"run_dir": str(self.run_dir), "word": self.word} for task in cards}

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        heard = sorted(task for task, answer in answers.items() if answer.values is not None)
        if len(heard) < 2:
            return None
        first = answers[heard[0]].values or _NONE
        return Begin(self.run_dir, self.word, top=str(first["top"]), tasks=tuple(heard))


@dataclass(frozen=True, slots=True)
class Begin(_Shared):
    top: str = ""
    tasks: tuple[int, ...] = ()
    """Those that answered, the one that writes first."""
    function: str = f"{_PART}:begin"

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        return {task: {"top": self.top, "word": self.word} for task in self.tasks[:1] if task in cards}

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        yield from _Shared.judge(self, cards, answers)
        values = (answers.get(self.tasks[0]) or Answer(None)).values
        if values is not None and "error" in values:
            node = cards[self.tasks[0]].node
            why = f"{node} can't write to {self.top}: {values['error']} (see the check of storage)"
            yield Result(CHECK, None, skipped(why))

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        values = (answers.get(self.tasks[0]) or Answer(None)).values or _NONE
        if "folder" not in values:
            return None
        return Join(self.run_dir, self.word, folder=str(values["folder"]), tasks=self.tasks)


@dataclass(frozen=True, slots=True)
class Join(_Shared):
    folder: str = ""
    tasks: tuple[int, ...] = ()
    function: str = f"{_PART}:join"
    timeout_s: float = 16.0

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        return {
            task: {
                "folder": self.folder,
                "word": self.word,
                "me": mark(task),
                "contend": index < CONTENDERS,
                "rename": index == 0,
            }
            for index, task in enumerate(self.tasks[1:])
            if task in cards
        }

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return Finish(self.run_dir, self.word, folder=self.folder, tasks=self.tasks, joined=answers)


@dataclass(frozen=True, slots=True)
class Finish(_Shared):
    folder: str = ""
    tasks: tuple[int, ...] = ()
    joined: Mapping[int, Answer] = field(default_factory=dict)
    function: str = f"{_PART}:finish"
    timeout_s: float = 16.0

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        wrote = [task for task in self.tasks[1:] if self._said(task).get("same") and "error" not in self._said(task)]
        renamer = self.tasks[1]
        if self.tasks[0] not in cards:
            return {}
        return {
            self.tasks[0]: {
                "folder": self.folder,
                "from": [mark(task) for task in wrote],
                "renamed": mark(renamer) if renamer in wrote else self.word,
            }
        }

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        yield from _Shared.judge(self, cards, answers)
        first = cards[self.tasks[0]].node
        answered = {task for task, answer in self.joined.items() if answer.values is not None}
        heard = [task for task in self.tasks[1:] if task in answered and task in cards]
        blind = [task for task in heard if self._is_blind(task)]
        if blind and len(blind) == len(heard):
            yield Result(CHECK, None if len(heard) > 1 else cards[blind[0]].node, self._not_shared(cards, blind, first))
            return
        for task in blind:
            yield Result(CHECK, cards[task].node, self._missing(cards[task].node, first))
        for task in heard:
            if task not in blind and (error := self._said(task).get("error")):
                why = f"{cards[task].node} can't write to {self.folder}: {error} (see the check of storage)"
                yield Result(CHECK, cards[task].node, skipped(why))
        found = (answers.get(self.tasks[0]) or Answer(None)).values
        fine = [task for task in heard if task not in blind and "error" not in self._said(task)]
        if found is None or not fine:
            return
        yield from self._of_those_who_see(cards, found, fine)

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return None

    def _said(self, task: int) -> Mapping[str, Any]:
        return (self.joined.get(task) or Answer(None)).values or _NONE

    def _is_blind(self, task: int) -> bool:
        said = self._said(task)
        return "error" not in said and not said.get("same")

    def _not_shared(self, cards: Mapping[int, Card], blind: list[int], first: str) -> Finding:
        who = listed([cards[task].node for task in blind])
        return fail(
            Problem.USER,
            f"run directory {self.run_dir} is not on storage that all nodes share: {who} can't see what {first} wrote",
            "choose a run directory on the cluster's shared file system",
        )

    def _missing(self, node: str, first: str) -> Finding:
        return fail(
            Problem.NODE,
            f"run directory {self.run_dir} is not the same on {node}: it can't see what {first} wrote, others can",
            f"look whether the file system is mounted on {node}: `findmnt -T {self.run_dir}`",
        )

    def _of_those_who_see(
        self, cards: Mapping[int, Card], found: Mapping[str, Any], fine: list[int]
    ) -> Iterable[Result]:
        first = cards[self.tasks[0]].node
        late = {task: max(self._said(task)["late_s"], found["late_s"].get(mark(task), 0.0)) for task in fine}
        lost = [task for task in fine if mark(task) not in found["late_s"]]
        for task in lost:
            sentence = (
                f"{first} never saw what {cards[task].node} wrote to {self.run_dir}, though they see its own files"
            )
            remedy = f"compare how {first} and {cards[task].node} mount it: `findmnt -T {self.run_dir}`"
            yield Result(CHECK, cards[task].node, fail(Problem.NODE, sentence, remedy))
        trouble = self._exclusion(fine)
        if trouble is not None:
            yield Result(CHECK, None, trouble)
        if not found["renamed"]:
            sentence = f"{first} doesn't see that a file in {self.run_dir} was replaced by another node"
            remedy = "mount it with close-to-open consistency (nfs(5): no `nocto`, a small `actimeo`)"
            yield Result(CHECK, None, fail(Problem.USER, sentence, remedy))
        if trouble is None and found["renamed"] and not lost:
            yield Result(CHECK, first, ok(f"{self.run_dir} is the same here as on the other nodes"))
        for task in fine:
            if task in lost:
                continue
            if late[task] > LATE_S:
                sentence = (
                    f"{cards[task].node} and {first} see each other's files in {self.run_dir} {late[task]:.1f} s late"
                )
                remedy = "its attributes are cached: mount it with a smaller `actimeo` (nfs(5))"
                yield Result(CHECK, cards[task].node, warn(Problem.USER, sentence, remedy, late_s=late[task]))
            elif trouble is None:
                flock = self._said(task).get("flock")
                facts = {"late_s": late[task], **({} if flock is None else {"flock": flock})}
                yield Result(CHECK, cards[task].node, ok(f"{self.run_dir} is the same here as on {first}", **facts))

    def _exclusion(self, fine: list[int]) -> Finding | None:
        said = [self._said(task) for task in fine]
        won = [one["won"] for one in said if one.get("won") is not None]
        locks = [one["flock"] for one in said if "flock" in one]
        if "shared" in locks:
            return fail(
                Problem.USER,
                f"locks on {self.run_dir} don't exclude each other: two nodes held one at the same time",
                "mount it with locks that reach the server (Lustre: `flock`; NFS: no `nolock`, no `local_lock`)",
            )
        if len(won) == len(self.tasks) - 1 and won.count(True) != 1:
            return fail(
                Problem.USER,
                f"{won.count(True)} nodes made the same hard link in {self.run_dir}, where exactly one must",
                "choose a run directory on a file system that makes hard links atomically",
            )
        if "refused" in locks and any(one.get("won") is None for one in said):
            return fail(
                Problem.USER,
                f"{self.run_dir} has neither locks nor hard links: the run's journal can't be kept there",
                "choose a run directory on another file system, or have it mounted with `flock`",
            )
        return None


def mark(task: int) -> str:
    return f"node-{task}"
