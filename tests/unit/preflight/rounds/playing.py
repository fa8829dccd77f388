"""Nodes that are threads of the test: their parts of a round and of what follows, judged as the conductor does."""

from __future__ import annotations

import contextlib
import importlib
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.result import Outcome, Result
from slurm_resilience.preflight.round import Answer, Card, Round

Part = Callable[[int, str, Mapping[str, Any]], Mapping[str, Any] | None]
"""(task, function, assignment): what this node answers instead of what the function would. None: as it is."""


def card(task: int, **changed: Any) -> Card:
    facts: dict[str, Any] = {
        "task": task,
        "node": f"n{task + 1}",
        "host": f"host{task + 1}",
        "addresses": (f"10.0.0.{task + 1}",),
        "ports": (15001, 40001),
        "boot_id": f"boot-{task}",
        "cpus": 2,
    }
    return Card(**facts | changed)


def cards_of(count: int, **changed: Any) -> dict[int, Card]:
    return {task: card(task, **changed) for task in range(count)}


@dataclass(frozen=True)
class Played:
    results: list[Result]

    def of(self, *outcomes: Outcome) -> list[Result]:
        return [result for result in self.results if result.finding.outcome in outcomes]

    @property
    def bad(self) -> dict[str | None, str]:
        """By node, what was not fine."""
        fine = (Outcome.OK, Outcome.SKIPPED)
        return {r.node: r.finding.sentence for r in self.results if r.finding.outcome not in fine}


def play(
    first: Round,
    cards: Mapping[int, Card],
    *,
    contexts: Mapping[int, Context] | None = None,
    instead: Part = lambda *_: None,
) -> Played:
    results: list[Result] = []
    now: Round | None = first
    while now is not None:
        assignments = now.assignments(cards)
        if not assignments:
            break
        answers = _answers(now, assignments, contexts or {}, instead)
        results += now.judge(cards, answers)
        now = now.following(cards, answers)
    return Played(results)


def _answers(
    now: Round, assignments: Mapping[int, Mapping[str, Any]], contexts: Mapping[int, Context], instead: Part
) -> dict[int, Answer]:
    module, _, name = now.function.partition(":")
    function = getattr(importlib.import_module(module), name)

    def answer(task: int) -> Answer:
        values = instead(task, name, assignments[task])
        if values is None:
            values = function(contexts.get(task, Context(f"n{task + 1}", {})), assignments[task], lambda _: None)
        if "trouble" in values:
            return Answer(None, str(values["trouble"]))
        return Answer(values, took_s=0.1)

    with ThreadPoolExecutor(len(assignments)) as pool:
        return dict(zip(assignments, pool.map(answer, assignments), strict=True))


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(65536):
                self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def echo(address: str = "127.0.0.1") -> Iterator[int]:
    """The port of a server that sends back what comes."""
    with _Server((address, 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
