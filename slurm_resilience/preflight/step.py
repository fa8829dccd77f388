"""The processes of preflight, one on each node, and the channel to them: their standard input and output.

It is Slurm's own channel: neither the network between the nodes nor shared storage has to work for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slurm_resilience.errors import CommandMissing

_KILLED_AFTER_S = 3.0
"""How long srun has to take its tasks down before it is killed itself."""
_READ_BYTES = 1 << 16
_LONGEST_LINE = 1 << 20
"""What a program prints without ever ending its line is cut there."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One line of what came back."""

    text: str
    task: int | None = None
    """Whose it is; None: srun's own."""
    aside: bool = False
    """Whether it came on standard error."""


class Step(Protocol):
    """One process of preflight on each node. Nothing here waits longer than it is told to."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """In the order of their tasks. Empty: only the nodes themselves will know."""
        ...

    @property
    def queues(self) -> bool:
        """Whether it may have to wait for its nodes, for as long as Slurm likes."""
        ...

    @property
    def over(self) -> bool:
        """Whether all of them have ended, and everything that they said has been received."""
        ...

    def start(self) -> None:
        """Raises CommandMissing."""
        ...

    def send(self, lines: Iterable[str]) -> None:
        """To all of them; they go out as fast as they are taken, while `receive` waits."""
        ...

    def receive(self, timeout_s: float) -> list[Heard]:
        """What they have said since the last call; returns as soon as there is something, or they are over."""
        ...

    def stop(self, patience_s: float) -> None:
        """Close their input, by which they leave; end them by force after `patience_s`. May be called twice."""
        ...

    def without(self, nodes: Collection[str]) -> Step | None:
        """The same, not started yet, on the others of its nodes. None: none are left, or they aren't known."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    task: int | None = None
    """Whose process it is; None: it is srun, which says it before each line."""


@dataclass(slots=True)
class _Stream:
    descriptor: int
    launch: Launch
    aside: bool
    rest: bytes = b""


@dataclass(slots=True)
class PipedStep:
    """By pipes to srun, or to the processes themselves."""

    launches: Sequence[Launch]
    nodes: tuple[str, ...] = ()
    queues: bool = False
    over: bool = False
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _selector: selectors.BaseSelector | None = None
    _inputs: dict[int, deque[bytes]] = field(default_factory=dict)
    _open: int = 0

    def start(self) -> None:
        self._selector = selectors.DefaultSelector()
        for launch in self.launches:
            try:
                # A session of its own: Ctrl-C on the terminal is for us, who then end it in order.
                process = subprocess.Popen(
                    launch.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    env=dict(launch.environment),
                    start_new_session=True,
                )
            except OSError as error:
                self.stop(0.0)
                raise CommandMissing(f"{launch.argv[0]!r} can't be run here: {error.strerror}") from error
            self._processes.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            os.set_blocking(process.stdin.fileno(), False)
            self._inputs[process.stdin.fileno()] = deque()
            for stream, aside in ((process.stdout, False), (process.stderr, True)):
                self._selector.register(stream.fileno(), selectors.EVENT_READ, _Stream(stream.fileno(), launch, aside))
                self._open += 1

    def send(self, lines: Iterable[str]) -> None:
        blocks = [line.encode("ascii") for line in lines]
        for queue in self._inputs.values():
            queue.extend(blocks)
        self._push()

    def receive(self, timeout_s: float) -> list[Heard]:
        end_s = time.monotonic() + timeout_s
        while True:
            heard = self._wait(max(0.0, end_s - time.monotonic()))
            if self._open == 0:
                self.over = True
            if heard or self.over or time.monotonic() >= end_s:
                return heard

    def stop(self, patience_s: float) -> None:
        self._close_inputs()
        self._drain(patience_s)
        for number in (signal.SIGTERM, signal.SIGKILL):  # srun makes SIGKILL for its tasks of a SIGTERM
            if not any(process.poll() is None for process in self._processes):
                break
            self._signal(number)
            self._drain(_KILLED_AFTER_S)
        self._close()

    def without(self, nodes: Collection[str]) -> Step | None:
        return None

    def _wait(self, timeout_s: float) -> list[Heard]:
        selector = self._selector
        if selector is None or self._open == 0:
            return []
        self._push()
        for descriptor, queue in self._inputs.items():
            known = descriptor in selector.get_map()
            if queue and not known:
                selector.register(descriptor, selectors.EVENT_WRITE)
            elif known and not queue:
                selector.unregister(descriptor)
        heard: list[Heard] = []
        for key, _ in selector.select(timeout_s):
            if isinstance(key.data, _Stream):
                heard += self._read(selector, key.data)
        self._push()
        return heard

    def _read(self, selector: selectors.BaseSelector, stream: _Stream) -> list[Heard]:
        try:
            block = os.read(stream.descriptor, _READ_BYTES)
        except OSError:
            block = b""
        whole = stream.rest + block
        if block:
            *lines, stream.rest = whole.split(b"\n")
            if len(stream.rest) > _LONGEST_LINE:
                lines, stream.rest = [*lines, stream.rest], b""
        else:
            selector.unregister(stream.descriptor)
            self._open -= 1
            lines, stream.rest = [whole] if whole else [], b""
        return [_heard(line, stream) for line in lines]

    def _push(self) -> None:
        for descriptor, queue in self._inputs.items():
            _write(descriptor, queue)

    def _drain(self, seconds: float) -> None:
        """Wait for their ends, reading on, so that nobody is stuck because we don't."""
        end_s = time.monotonic() + seconds
        while any(process.poll() is None for process in self._processes) and time.monotonic() < end_s:
            if self._open:
                self._wait(min(0.1, max(0.0, end_s - time.monotonic())))
            else:
                time.sleep(0.02)

    def _close_inputs(self) -> None:
        for descriptor in self._inputs:
            if self._selector is not None and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        self._inputs.clear()
        for process in self._processes:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    def _close(self) -> None:
        for process in self._processes:
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.poll()
        if self._selector is not None:
            self._selector.close()
            self._selector = None
        self._open, self.over = 0, True


def _write(descriptor: int, queue: deque[bytes]) -> None:
    """As much of it as is taken now."""
    try:
        while queue:
            written = os.write(descriptor, queue[0])
            if written == len(queue[0]):
                queue.popleft()
            else:
                queue[0] = queue[0][written:]
    except BlockingIOError:
        return
    except OSError:
        queue.clear()  # nobody listens any more: what it said is still to be heard


_LABEL = re.compile(r" *(\d+): ?")


def _heard(line: bytes, stream: _Stream) -> Heard:
    text = line.decode("utf-8", "replace").rstrip("\r")
    if stream.launch.task is not None:
        return Heard(text, stream.launch.task, stream.aside)
    match = _LABEL.match(text)
    if match is None:
        return Heard(text, None, stream.aside)
    return Heard(text[match.end() :], int(match.group(1)), stream.aside)
