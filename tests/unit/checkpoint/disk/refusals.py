"""A file system that refuses its n-th call, or some way of writing, or takes a little at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.disk import kernel

CALLS = [(os, "pwrite"), (os, "pwritev"), (os, "ftruncate"), (os, "fsync"), (Path, "replace")]
SYNC = [(kernel, "finish_write_back"), (kernel, "allocate")]


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


class Refusals:
    """Counts calls that change what is on the disk, and refuses the n-th of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.refuse_at = 0
        self.errno = 0
        self.calls: list[str] = []
        for where, name in [*CALLS, *SYNC]:
            monkeypatch.setattr(where, name, self._counted(name, getattr(where, name)))

    def refuse(self, number: int, errno: int) -> None:
        self.refuse_at = number
        self.errno = errno
        self.calls = []

    @property
    def refused(self) -> str | None:
        return self.calls[self.refuse_at - 1] if 0 < self.refuse_at <= len(self.calls) else None

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) == self.refuse_at:
                raise OSError(self.errno, os.strerror(self.errno))
            return call(*args, **named)

        return counted


def refuse_direct(monkeypatch: pytest.MonkeyPatch, errno: int, *, when: str) -> None:
    """As tmpfs used to (when it is opened), and as some network file systems do (at the first block)."""
    opened, direct = os.open, set()

    def open_(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if flags & os.O_DIRECT and when == "opened":
            raise OSError(errno, os.strerror(errno))
        descriptor = opened(path, flags, mode, **named)
        direct.discard(descriptor)
        if flags & os.O_DIRECT:
            direct.add(descriptor)
        return descriptor

    def refuse_first(call: Callable[..., int]) -> Callable[..., int]:
        def refused(descriptor: int, *args: Any) -> int:
            if descriptor in direct:
                raise OSError(errno, os.strerror(errno))
            return call(descriptor, *args)

        return refused

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "pwrite", refuse_first(os.pwrite))
    monkeypatch.setattr(os, "preadv", refuse_first(os.preadv))


def refuse_uncached(monkeypatch: pytest.MonkeyPatch, errno: int) -> None:
    def refused(*args: Any) -> int:
        raise OSError(errno, os.strerror(errno))

    monkeypatch.setattr(os, "pwritev", refused)


def take_little(monkeypatch: pytest.MonkeyPatch, amounts: list[int]) -> None:
    """Of each write only so many bytes are taken, in turn."""
    pwrite, turn = os.pwrite, [0]

    def short(descriptor: int, piece: memoryview, offset: int) -> int:
        turn[0] += 1
        return pwrite(descriptor, piece[: amounts[turn[0] % len(amounts)]], offset)

    monkeypatch.setattr(os, "pwrite", short)
