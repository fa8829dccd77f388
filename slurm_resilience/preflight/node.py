"""`python -m slurm_resilience.preflight.node`: preflight's process on one node, led by the conductor.

One thread, one loop: what the conductor says on standard input, what our children say, and the time. It leaves when it
is told to, when its input ends, and at its own deadline whatever happens.
"""

from __future__ import annotations

import argparse
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.channel import Collector, lines_of
from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.child import WARNINGS
from slurm_resilience.preflight.errand import Errand, Part, Task, start_check, start_part
from slurm_resilience.preflight.introduction import introduction
from slurm_resilience.preflight.result import broken
from slurm_resilience.preflight.wire import check_of, context_of, finding_value

TICK_S = 0.1
"""How often the ends of children are looked for: a grandchild may keep a pipe open."""
BEAT_S = 1.0
"""How often the conductor hears what runs, while something does."""
_LAST_CALL_S = 10
"""How long after the deadline the kernel ends us, should the loop itself be stuck."""


@dataclass(frozen=True, slots=True)
class Seat:
    task: int
    node: str


class Channel:
    """Lines to the conductor, on what was our standard output; children and stray prints don't have it."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._number = 0
        self._descriptor = os.dup(1)
        os.dup2(2, 1)

    def say(self, value: Mapping[str, Any]) -> None:
        self._number += 1
        data = "".join(lines_of(self._task, self._number, value)).encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


@dataclass
class NodeProgram:
    seat: Seat
    channel: Channel
    deadline_s: float
    """On the monotonic clock."""
    environment: Mapping[str, str]
    context: Context | None = None
    waiting: deque[Task] = field(default_factory=deque)
    running: list[Errand] = field(default_factory=list)
    checking: bool = False
    _beat_s: float = 0.0

    def run(self) -> None:
        os.set_blocking(0, False)
        collector, rest = Collector(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            while time.monotonic() < self.deadline_s:
                said = self._wait(selector)
                if said == b"":
                    return
                *lines, rest = (rest + (said or b"")).split(b"\n")
                for line in lines:
                    for message in collector.hear(line.decode("ascii", "replace"))[0]:
                        if message.value.get("kind") == "bye":
                            return
                        self._obey(message.value)
                self._look_after_children()

    def _wait(self, selector: selectors.BaseSelector) -> bytes | None:
        """What the conductor said; empty: it is gone; None: nothing yet."""
        for descriptor in {each for errand in self.running for each in errand.child.descriptors}:
            selector.register(descriptor, selectors.EVENT_READ)
        ready = {key.fd for key, _ in selector.select(TICK_S if self.running else 1.0)}
        for key in [key for key in selector.get_map().values() if key.fd != 0]:
            selector.unregister(key.fd)
        if 0 not in ready:
            return None
        try:
            return os.read(0, 1 << 16)
        except BlockingIOError:
            return None

    def _obey(self, order: Mapping[str, Any]) -> None:
        if order.get("to") is not None and self.seat.task not in order["to"]:
            return
        match order:
            case {"kind": "ping", "id": id_}:
                self.channel.say({"kind": "pong", "id": id_, "wall_s": time.time()})
            case {"kind": "hello", "context": dict(values)}:
                self.context = context_of(values, node=self.seat.node, environment=self.environment)
                self.context = _with_own_facts(self.context)
                self.channel.say({"kind": "ready"})
            case {"kind": "checks", "checks": list(checks)} if self.context is not None:
                baseline = order.get("baselines", {}).get(self.seat.node)
                self.context = replace(self.context, baseline=baseline)
                self.waiting.extend(map(check_of, checks))
                self.checking = True
            case {"kind": "round", "assignments": dict(given)} if str(self.seat.task) in given:
                assignment = given[str(self.seat.task)]
                self.waiting.append(
                    Part(order["number"], order["name"], order["function"], order["timeout_s"], assignment)
                )
            case _:
                return

    def _look_after_children(self) -> None:
        for errand in self.running:
            for message in errand.go_on():
                self.channel.say(message)
        self.running = [errand for errand in self.running if not errand.ended]
        for task in self._next():
            self._start(task)
        if self.checking and not self.running and not self.waiting:
            self.checking = False
            self.channel.say({"kind": "checked"})
        if self.running and time.monotonic() >= self._beat_s:
            self._beat_s = time.monotonic() + BEAT_S
            running = [[errand.task.name, errand.told] for errand in self.running]
            self.channel.say({"kind": "alive", "running": running})

    def _next(self) -> Iterator[Task]:
        """What may start now: checks side by side, as many as there are CPUs; those that measure a speed by itself."""
        slots = max(2, len(os.sched_getaffinity(0)))
        together = [task for task in self.waiting if not _is_alone(task)]
        if together:
            if any(_is_alone(errand.task) for errand in self.running):
                return
            for task in together[: slots - len(self.running)]:
                self.waiting.remove(task)
                yield task
        elif self.waiting and not self.running:
            yield self.waiting.popleft()

    def _start(self, task: Task) -> None:
        assert self.context is not None
        try:
            if isinstance(task, Check):
                self.running.append(start_check(task, self.context))
            else:
                self.running.append(start_part(task, self.context))
        except OSError as error:
            self._could_not_start(task, f"could not be started: {error.strerror}")

    def _could_not_start(self, task: Task, why: str) -> None:
        if isinstance(task, Check):
            finding = finding_value(broken(why))
            self.channel.say({"kind": "result", "check": task.name, "finding": finding, "took_s": 0.0})
            self.channel.say({"kind": "done", "check": task.name, "took_s": 0.0})
        else:
            self.channel.say({"kind": "answer", "number": task.number, "values": None, "trouble": why, "took_s": 0.0})


def _is_alone(task: Task) -> bool:
    return isinstance(task, Check) and task.alone


def _with_own_facts(context: Context) -> Context:
    if context.gpus is not None:
        return context
    return replace(context, gpus=first_number(context.environment, "SLURM_GPUS_ON_NODE"))


def seat(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Seat:
    task = arguments.task if arguments.task is not None else int(environment.get("SLURM_PROCID", "0"))
    return Seat(task, arguments.node or environment.get("SLURMD_NODENAME") or socket.gethostname())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="slurm-resilience preflight, on a node")
    parser.add_argument("--deadline", type=float, default=120.0)
    parser.add_argument("--task", type=int)
    parser.add_argument("--node")
    parser.add_argument("--interface")
    arguments = parser.parse_args(words)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(arguments.deadline) + _LAST_CALL_S)  # for a write that nobody takes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for warning in WARNINGS:
        signal.signal(warning, signal.SIG_IGN)  # `--signal=USR1@…` comes to every step: it is for the training
    me = seat(arguments, os.environ)
    program = NodeProgram(me, Channel(me.task), time.monotonic() + arguments.deadline, dict(os.environ))
    try:
        # Unasked: srun hands nothing to any task before it has heard of all of them.
        program.channel.say(introduction(me.task, me.node, arguments.interface, program.environment))
        program.run()
    except OSError:
        pass  # nobody listens to us any more
    finally:
        for errand in program.running:
            errand.child.leave_behind()
    os._exit(0)


if __name__ == "__main__":
    main()
