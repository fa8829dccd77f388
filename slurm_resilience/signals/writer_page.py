"""Which processes of the node are writing a checkpoint and must not be killed for it: `writer-<local rank>`.

Four bytes in the runtime folder: the writer's process id while it has something in flight, 0 otherwise.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from types import TracebackType

_PID = struct.Struct("<I")


class WriterPage:
    """The writer's side. `with` opens it."""

    def __init__(self, folder: Path, local_rank: int) -> None:
        self._path = folder / f"writer-{local_rank}"
        self._descriptor: int | None = None

    def __enter__(self) -> WriterPage:  # noqa: PYI034 typing.Self is not in Python 3.10
        """Raises OSError: then nobody knows of us, and nobody spares us."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.busy(on=False)  # takes the space, so that saying so later can't fail for want of it
        return self

    def busy(self, *, on: bool) -> None:
        if self._descriptor is not None:
            os.pwrite(self._descriptor, _PID.pack(os.getpid() if on else 0), 0)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def busy_writers(folder: Path) -> frozenset[int]:
    """The processes that say they are writing. They may have died since: look before believing."""
    pids = set()
    for path in folder.glob("writer-*"):
        with contextlib.suppress(OSError, struct.error):
            pids.add(_PID.unpack(path.read_bytes())[0])
    return frozenset(pids - {0})
