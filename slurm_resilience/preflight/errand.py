"""A check or a node's part of a round, from its start to what is to be said about it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_resilience.command import signal_name
from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.child import Child, Send, function_of, start
from slurm_resilience.preflight.result import Finding, Outcome, Problem, broken
from slurm_resilience.preflight.wire import finding_of, finding_value

_HUNG_REMEDY = "the training would hang there too: leave this node out, and tell the administrators what hangs"


@dataclass(frozen=True, slots=True)
class Part:
    """A node's part of a round."""

    number: int
    name: str
    function: str
    timeout_s: float
    assignment: Mapping[str, Any]


Task = Check | Part


@dataclass(slots=True)
class Errand:
    """One running child and what it has said. `steps` yields messages for the conductor."""

    task: Task
    child: Child
    told: str | None = None
    findings: int = 0
    values: Mapping[str, Any] | None = None
    raised: str | None = None
    ended: bool = False
    _said: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def took_s(self) -> float:
        return time.monotonic() - self.child.started_s

    @property
    def left_s(self) -> float:
        return self.task.timeout_s - self.took_s

    def go_on(self) -> Iterator[dict[str, Any]]:
        """Read what has come; at its end or its time-out, the last words too. `ended` then says so."""
        gone = self.child.look()  # before reading: what it said before its end is all there then
        for value in self.child.read():
            yield from self._take(value)
        if not self.ended and (gone or self.left_s <= 0):
            self.ended = True
            yield from self._last_words(hung=not gone)
        if self.ended:
            self.child.leave_behind()

    def _take(self, value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        match value:
            case {"tell": str(sentence)}:
                self.told = sentence
            case {"finding": dict(finding)} if isinstance(self.task, Check):
                try:
                    yield self._result(finding_of(finding))
                except (KeyError, ValueError, TypeError):
                    yield self._result(broken("said something that is no finding"))
            case {"values": dict(values)}:
                self.values = values
            case {"raised": str(raised)}:
                self.raised = raised
            case {"end": True}:
                self.ended = True
                yield from self._last_words(hung=False)
            case _:
                return

    def _result(self, finding: Finding) -> dict[str, Any]:
        self.findings += 1
        took_s = self.took_s
        return {"kind": "result", "check": self.task.name, "finding": finding_value(finding), "took_s": took_s}

    def _last_words(self, *, hung: bool) -> Iterator[dict[str, Any]]:
        trouble = self._trouble(hung=hung)
        match self.task:
            case Check():
                if trouble is not None:
                    yield self._result(self._finding(trouble, hung=hung))
                elif not self.findings:
                    yield self._result(broken("ended without a finding"))
                yield {"kind": "done", "check": self.task.name, "took_s": self.took_s}
            case Part():
                if trouble is None and self.values is None:
                    trouble = "ended without an answer"
                values = None if trouble is not None else self.values
                answer = {"number": self.task.number, "values": values, "trouble": trouble, "took_s": self.took_s}
                yield {"kind": "answer", **answer}

    def _finding(self, trouble: str, *, hung: bool) -> Finding:
        if hung and isinstance(self.task, Check) and self.task.hung in (Outcome.FAIL, Outcome.WARN):
            return Finding(self.task.hung, trouble, Problem.NODE, _HUNG_REMEDY)
        return broken(trouble)

    def _trouble(self, *, hung: bool) -> str | None:
        """How it went wrong, with how far it came; None: it came to its end."""
        while_ = f", while {self.told}" if self.told else ""
        if hung:
            return f"no answer within {self.task.timeout_s:g} s{while_}"
        if self.raised is not None:
            return f"raised {self.raised}{while_}"
        code = self.child.code
        if code is not None and code > 128:
            return f"was ended by {signal_name(code - 128)}{while_}{self._noise()}"
        if code:
            return f"ended with exit code {code}{while_}{self._noise()}"
        return None

    def _noise(self) -> str:
        lines = [line for line in self.child.last_noise.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"; it last printed: {' '.join(lines[-1].split())[:200]}" if lines else ""


def start_check(check: Check, context: Context) -> Errand:
    """Raises OSError where no process can be made."""

    def work(send: Send) -> None:
        def tell(sentence: str) -> None:
            send({"tell": sentence})

        for finding in function_of(check.function)(context, tell):
            send({"finding": finding_value(finding)})

    return Errand(check, start(work))


def start_part(part: Part, context: Context) -> Errand:
    """Raises OSError where no process can be made."""

    def work(send: Send) -> None:
        def tell(sentence: str) -> None:
            send({"tell": sentence})

        send({"values": dict(function_of(part.function)(context, part.assignment, tell))})

    return Errand(part, start(work))
