"""A check in a process of its own: it may hang, crash or print, and the node's process goes on."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from slurm_resilience.parent_death import die_with_parent

WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
"""Slurm's, for the training: the node's program does without them."""
_LAST_NOISE_BYTES = 2000
_LONGEST_LINE_BYTES = 4 << 20

Send = Callable[[Mapping[str, Any]], None]
Work = Callable[[Send], None]


@dataclass(slots=True)
class Child:
    """From `start` to `leave_behind`. It says one JSON value a line."""

    pid: int
    result: int
    """The descriptor to read from; its noise comes by the other."""
    noise: int
    started_s: float
    code: int | None = None
    """As the shell would say it; None: it lives, or can't be waited for."""
    last_noise: bytes = b""
    _rest: bytes = b""
    _closed: set[int] = field(default_factory=set)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(each for each in (self.result, self.noise) if each not in self._closed)

    def read(self) -> list[dict[str, Any]]:
        """What it has said since, without waiting."""
        self._read_noise()
        if self.result in self._closed:
            return []
        with contextlib.suppress(BlockingIOError):
            while True:
                block = os.read(self.result, 1 << 16)
                if not block:
                    self._close(self.result)
                    break
                self._rest += block
                if len(self._rest) > _LONGEST_LINE_BYTES:
                    break
        *lines, self._rest = self._rest.split(b"\n")
        return [value for value in map(_value, lines) if value is not None]

    def look(self) -> bool:
        """Whether it has ended."""
        if self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
        return self.code is not None

    def leave_behind(self) -> None:
        """Kill it and what it has started. It is never waited for: what stands in the kernel can't be killed."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.look()
        for descriptor in self.descriptors:
            self._close(descriptor)

    def _read_noise(self) -> None:
        if self.noise in self._closed:
            return
        with contextlib.suppress(BlockingIOError):
            block = os.read(self.noise, 1 << 16)  # once: who prints for ever must not keep us here
            if not block:
                self._close(self.noise)
            self.last_noise = (self.last_noise + block)[-_LAST_NOISE_BYTES:]

    def _close(self, descriptor: int) -> None:
        os.close(descriptor)
        self._closed.add(descriptor)


def _value(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def start(work: Work) -> Child:
    """Fork, and run `work` there. Only from a process with one thread. Raises OSError."""
    result, result_end = os.pipe()
    noise, noise_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_the_child(work, result_end, noise_end, parent)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # here too: whoever comes first
    for end in (result_end, noise_end):
        os.close(end)
    for descriptor in (result, noise):
        os.set_blocking(descriptor, False)
    return Child(pid, result, noise, time.monotonic())


def _be_the_child(work: Work, result: int, noise: int, parent: int) -> NoReturn:
    """Whatever happens in here, the caller's stack is never gone back to."""
    try:
        os.setpgid(0, 0)
        die_with_parent(parent)
        for warning in WARNINGS:
            signal.signal(warning, signal.SIG_DFL)  # what is ignored stays so for the programs that a check runs
        _settle_descriptors(result, noise)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # for as long as the process lives
        faulthandler.enable(file=2)

        def send(value: Mapping[str, Any]) -> None:
            _write_all(result, json.dumps(value, default=str).encode() + b"\n")

        try:
            work(send)
        except BaseException as error:  # noqa: BLE001  # whatever it raises is its answer
            send({"raised": _in_words(error)})
        send({"end": True})
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(0)


def _settle_descriptors(result: int, noise: int) -> None:
    """Nothing of the node's own: neither its channel nor the pipes of other children."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(noise, 1)
    os.dup2(noise, 2)
    os.closerange(3, result)
    os.closerange(result + 1, max(256, noise + 64))


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _in_words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def function_of(name: str) -> Any:
    """`module:name`, imported."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
