"""A step whose nodes are functions, on a clock that only `receive` moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_resilience.preflight.channel import Collector, lines_of
from slurm_resilience.preflight.result import Finding, ok
from slurm_resilience.preflight.round import Card
from slurm_resilience.preflight.step import Heard, Step
from slurm_resilience.preflight.wire import card_value, finding_value


@dataclass
class FakeClock:
    monotonic: float = 100.0
    wall: float = 1_800_000_000.0

    def now_s(self) -> float:
        return self.wall

    def monotonic_s(self) -> float:
        return self.monotonic

    def sleep(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


def card(task: int, node: str, host: str | None = None) -> Card:
    return Card(task, node, host or f"host-{node}", (f"10.0.0.{task + 1}",), (15001, 40001), f"boot-{node}", 4)


@dataclass
class FakeNode:
    """One that does all that it is told, at once. Tests take something away from it."""

    task: int
    name: str
    findings: Mapping[str, list[Finding]] = field(default_factory=dict)
    """By check; others are fine."""
    answers: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """By round."""
    clock_ahead_s: float = 0.0
    silent: bool = False
    dies_at: str | None = None
    """The kind of order at which it says no more, ever."""
    hangs_in: str | None = None
    """The check that it never ends; it says that it lives."""
    mute_in: str | None = None
    """The check in which it falls silent without ending."""
    working: list[list[str | None]] = field(default_factory=list)
    orders: list[Mapping[str, Any]] = field(default_factory=list)
    _number: int = 0

    def first_words(self) -> list[str]:
        introduced = {"kind": "card", "card": card_value(card(self.task, self.name)), "job": "12", "restart": 1}
        return [] if self.silent else self.say({**introduced, "nodes": ""})

    def say(self, value: Mapping[str, Any]) -> list[str]:
        self._number += 1
        return [line.rstrip("\n") for line in lines_of(self.task, self._number, value)]

    def hear(self, order: Mapping[str, Any], wall_s: float) -> list[str]:
        self.orders.append(order)
        if self.silent:
            return []
        if order["kind"] == self.dies_at:
            self.silent = True
            return []
        match order:
            case {"kind": "hello"}:
                return self.say({"kind": "ready"})
            case {"kind": "ping", "id": number}:
                return self.say({"kind": "pong", "id": number, "wall_s": wall_s + self.clock_ahead_s})
            case {"kind": "checks", "checks": checks}:
                return self._check([check["name"] for check in checks])
            case {"kind": "round", "name": name, "number": number, "assignments": given} if str(self.task) in given:
                values = self.answers.get(name, {})
                answer = {"number": number, "values": values, "trouble": None if values is not None else "it broke"}
                return self.say({"kind": "answer", **answer, "took_s": 0.5})
            case _:
                return []

    def _check(self, names: list[str]) -> list[str]:
        said: list[str] = []
        for name in names:
            if name in (self.hangs_in, self.mute_in):
                self.working = [[name, "writing /scratch/x"]]
                said += self.say({"kind": "alive", "running": self.working})
                self.silent = name == self.mute_in
                continue
            for finding in self.findings.get(name, [ok("fine")]):
                said += self.say({"kind": "result", "check": name, "finding": finding_value(finding), "took_s": 0.1})
            said += self.say({"kind": "done", "check": name})
        return said if self.working else said + self.say({"kind": "checked"})

    def tick(self) -> list[str]:
        return self.say({"kind": "alive", "running": self.working}) if self.working and not self.silent else []


@dataclass
class FakeStep:
    members: list[FakeNode]
    clock: FakeClock
    queues: bool = False
    over: bool = False
    named: bool = True
    """Whether the names of its nodes are known before they say them."""
    noise: list[Heard] = field(default_factory=list)
    """Said before anything else."""
    can_shrink: bool = True
    needs_all: bool = False
    """As srun: nothing is handed out before everybody is there."""
    stopped: int = 0
    started: bool = False
    smaller: list[Step] = field(default_factory=list)
    make: Callable[[list[FakeNode]], FakeStep] | None = None
    _lines: list[Heard] = field(default_factory=list)
    _collector: Collector = field(default_factory=Collector)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.members) if self.named else ()

    def start(self) -> None:
        self.started = True
        self._lines += self.noise
        for node in self.members:
            self._lines += [Heard(line, node.task) for line in node.first_words()]

    def send(self, lines: Iterable[str]) -> None:
        for line in lines:
            messages, _ = self._collector.hear(line)
            if self.needs_all and any(node.silent for node in self.members):
                continue
            for message in messages:
                for node in self.members:
                    answers = node.hear(message.value, self.clock.wall)
                    self._lines += [Heard(line, node.task) for line in answers]

    def receive(self, timeout_s: float) -> list[Heard]:
        if self._lines:
            lines, self._lines = self._lines, []
            self.clock.sleep(0.001)
            return lines
        self.clock.sleep(timeout_s)
        return [Heard(line, node.task) for node in self.members for line in node.tick()]

    def stop(self, patience_s: float) -> None:
        self.stopped += 1
        self.over = True

    def without(self, nodes: Collection[str]) -> Step | None:
        left = [node for node in self.members if node.name not in nodes]
        if not self.can_shrink or not left or len(left) == len(self.members):
            return None
        again = [FakeNode(task, node.name) for task, node in enumerate(left)]
        step = FakeStep(again, self.clock)
        self.smaller.append(step)
        return step
