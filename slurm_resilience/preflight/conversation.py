"""The conductor's side of the channel: what was said to the nodes, who has answered, who is lost."""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_resilience.clock import Clock
from slurm_resilience.preflight.channel import CONDUCTOR, Collector, Message, lines_of
from slurm_resilience.preflight.round import Card
from slurm_resilience.preflight.srun_step import Complaint, complaint_in
from slurm_resilience.preflight.step import Step
from slurm_resilience.preflight.wire import card_of

LOOK_EVERY_S = 0.2
"""How late a stop is noticed at worst."""
_NOISE_LINES = 5
_GONE_AFTER_S = 1.0
"""How long the last words of a node may be on their way after srun has said that its process ended."""


Hear = Callable[[int, Mapping[str, Any]], None]
"""What a task has said."""


class Interrupted(Exception):  # it is no error: somebody wanted it
    """`stopped` said so."""


@dataclass(slots=True)
class NodeTalk:
    """What is known of one node that has introduced itself."""

    card: Card
    heard_s: float
    ready: bool = False
    """Whether it hears us: srun hands nothing to any task before it has heard of all of them."""
    running: list[tuple[str, str | None]] = field(default_factory=list)
    """What it works on, and how far that has come, by its last word."""
    lost: str | None = None
    """Why nothing more is expected of it."""


@dataclass(slots=True)
class Conversation:
    step: Step
    clock: Clock
    stopped: Callable[[], bool]
    nodes: dict[int, NodeTalk] = field(default_factory=dict)
    """By task; those that have introduced themselves."""
    complaints: dict[str, Complaint] = field(default_factory=dict)
    """By node: srun's."""
    aside: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    """srun's own lines."""
    noise: dict[int, deque[str]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_NOISE_LINES)))
    job: str | None = None
    restart: int = 0
    step_nodes: str = ""
    """Slurm's list of the step's nodes, as a node has told it."""
    _collector: Collector = field(default_factory=Collector)
    _number: int = 0
    _ended_s: dict[str, float] = field(default_factory=dict)

    def say(self, value: Mapping[str, Any]) -> None:
        self._number += 1
        self.step.send(lines_of(CONDUCTOR, self._number, value))

    @property
    def living(self) -> dict[int, Card]:
        return {task: talk.card for task, talk in sorted(self.nodes.items()) if talk.lost is None}

    def listen(
        self,
        enough: Callable[[], bool],
        end_s: float,
        hear: Hear | None = None,
    ) -> bool:
        """Until it is enough, or `end_s` on the monotonic clock, or nobody can say anything more; whether it was
        enough. Raises Interrupted."""
        while not enough():
            if self.stopped():
                raise Interrupted
            left_s = end_s - self.clock.monotonic_s()
            if left_s <= 0 or self.step.over:
                return enough()
            for heard in self.step.receive(min(LOOK_EVERY_S, left_s)):
                messages, noise = self._collector.hear(heard.text)
                for message in messages:
                    self._take(message, hear)
                if noise and heard.task is not None:
                    self.noise[heard.task].append(noise)
                elif noise:
                    self._take_aside(noise)
        return True

    def _take(self, message: Message, hear: Hear | None) -> None:
        task, value, now_s = message.sender, message.value, self.clock.monotonic_s()
        talk = self.nodes.get(task)
        if talk is not None:
            talk.heard_s = now_s
        match value:
            case {"kind": "card"}:
                with contextlib.suppress(KeyError, TypeError, ValueError):  # what is no card is not heard
                    self.nodes[task] = NodeTalk(card_of(value["card"]), now_s)
                self.step_nodes = self.step_nodes or str(value.get("nodes") or "")
                if self.job is None and value.get("job"):
                    self.job, self.restart = str(value["job"]), int(value.get("restart") or 0)
            case {"kind": "ready"} if talk is not None:
                talk.ready = True
            case {"kind": "alive", "running": list(running)} if talk is not None:
                talk.running = [(str(name), told) for name, told in running]
            case _ if hear is not None:
                hear(task, value)
            case _:
                return

    def _take_aside(self, line: str) -> None:
        self.aside.append(line)
        complaint = complaint_in(line)
        if complaint is not None:
            self.complaints.setdefault(complaint.node, complaint)
            self._ended_s.setdefault(complaint.node, self.clock.monotonic_s())

    def lose_the_silent(self, waited_for: Collection[int], silence_limit_s: float, during: str) -> None:
        """Of those that are waited for, give up whose process has ended, and who has said nothing for too long."""
        now_s = self.clock.monotonic_s()
        for task in waited_for:
            talk = self.nodes.get(task)
            if talk is None or talk.lost is not None:
                continue
            node = talk.card.node
            ended_s = self._ended_s.get(node)
            while_ = self.while_running(talk)
            if ended_s is not None and now_s - max(ended_s, talk.heard_s) >= _GONE_AFTER_S:
                talk.lost = f"was lost during {during}{while_}: {self.complaints[node].why}"
            elif self.step.over:
                talk.lost = f"was lost during {during}{while_}: its step has ended"
            elif now_s - talk.heard_s >= silence_limit_s:
                talk.lost = f"stopped answering during {during}{while_}: not a word for {silence_limit_s:g} s"

    @staticmethod
    def while_running(talk: NodeTalk) -> str:
        if not talk.running:
            return ""
        return f" (at work: {', '.join(f'{name}, {told}' if told else name for name, told in talk.running)})"
