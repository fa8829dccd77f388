"""What NFS has for who reads a file that was replaced meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest


def first_read_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next Path.read_bytes, of whatever file, is refused; those behind it are not."""
    refusals = [OSError(errno.ESTALE, "Stale file handle")]
    reading: Callable[[Path], bytes] = Path.read_bytes

    def stale_at_first(path: Path) -> bytes:
        if refusals:
            raise refusals.pop()
        return reading(path)

    monkeypatch.setattr(Path, "read_bytes", stale_at_first)
