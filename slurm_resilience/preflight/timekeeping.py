"""Asking the nodes for their time, and hearing what that says."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from slurm_resilience.preflight.clocks import Offset, Ping, judge, offset_by, relative_to_first
from slurm_resilience.preflight.conversation import Conversation
from slurm_resilience.preflight.result import Result

PINGS = 7
_PATIENCE_S = 1.0
"""For one ping's answers, of those who answered one of the two before; who is later is still heard, with the next."""


def compare_clocks(talk: Conversation, nodes: Sequence[str], end_s: float) -> tuple[dict[str, Offset], list[Result]]:
    """By node: how far it is ahead of the first one; and what is to be said about it. Raises Interrupted."""
    sent: dict[int, tuple[float, float]] = {}
    pings: dict[int, list[Ping]] = defaultdict(list)
    heard: dict[int, set[int]] = defaultdict(set)

    def hear(task: int, value: Mapping[str, Any]) -> None:
        match value:
            case {"kind": "pong", "id": int(number), "wall_s": float(there_s)} if number in sent:
                wall_s, monotonic_s = sent[number]
                pings[task].append(Ping(wall_s, there_s, talk.clock.monotonic_s() - monotonic_s))
                heard[number].add(task)

    for number in range(PINGS):
        sent[number] = talk.clock.now_s(), talk.clock.monotonic_s()
        talk.say({"kind": "ping", "id": number})
        patience_s = min(end_s, talk.clock.monotonic_s() + _PATIENCE_S)
        waited_for = set(talk.living) if number < 2 else heard[number - 1] | heard[number - 2]
        talk.listen(partial(_all_in, waited_for, heard[number]), patience_s, hear)
    cards = talk.living
    offsets = {cards[task].node: offset_by(answers) for task, answers in pings.items() if task in cards}
    known = {node: offset for node, offset in offsets.items() if offset is not None}
    ours_counts = socket.gethostname() not in {card.host for card in cards.values()}
    ordered = {node: known[node] for node in nodes if node in known}
    return relative_to_first(nodes, known), judge(ordered, ours_counts=ours_counts)


def _all_in(waited_for: set[int], heard: set[int]) -> bool:
    return waited_for <= heard
