"""A folder on a disk that fails when it is told to.

::

    with FaultyDisk(tmp_path) as disk:
        fault = disk.fail("write", nth=3, errno=errno.ENOSPC)
        ...what writes below disk.path meets a full disk at its third write...
        assert disk.fired(fault)

A FUSE file system in a process of its own. It fails single calls, takes its time, hangs, and shows a second client what
was there a while ago. Not promised: speed, and that two views agree about bytes the kernel keeps for one of them.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.faulty_fs.serve import unmount

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 120


def why_missing() -> str:
    """Empty where a faulty disk can be had."""
    if shutil.which("fusermount3") is None:
        return "fusermount3 is missing: scripts/install-packages test"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse can't be opened: {error.strerror}"
    return ""


class FaultyDisk:
    def __init__(
        self, below: Path, *, cache_s: float = 0.0, shared_locks: bool = True, writeback: bool = False
    ) -> None:
        """`cache_s`: how long this client trusts what it knows of names and sizes. `writeback`: writes are taken at
        once and fail at the next fsync or close. Without `shared_locks` every view has flocks of its own."""
        self._below = below
        self._how = {"cache_s": cache_s, "shared_locks": shared_locks, "writeback": writeback}
        self.path = below / "disk"
        self.folder = below / "platter"
        """What really lies there, seen past all faults."""
        self._points: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> FaultyDisk:  # noqa: PYI034 typing.Self is not in Python 3.10
        self.folder.mkdir()
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        self._control = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faulty_fs.serve", str(theirs.fileno())],
                cwd=REPOSITORY,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        try:
            self._mount(self.path, **self._how)
        except BaseException:
            self._close()
            raise
        return self

    def view(self, name: str, *, cache_s: float) -> Path:
        """The same disk as another client sees it."""
        point = self._below / name
        self._mount(point, **{**self._how, "cache_s": cache_s})
        return point

    def fail(self, operation: str, **how: Any) -> int:
        """As `Fault` says. A number to ask about it."""
        return int(self._ask(order="fail", operation=operation, **how))

    def fired(self, fault: int) -> int:
        """How many calls it made go wrong."""
        return int(self._ask(order="fired", number=fault))

    def seen(self, fault: int) -> int:
        """How many calls it counted."""
        return int(self._ask(order="seen", number=fault))

    def heal(self) -> None:
        """No faults any more; what hangs goes on."""
        self._ask(order="heal")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _mount(self, point: Path, **how: Any) -> None:
        point.mkdir()
        self._points.append(point)
        self._ask(order="mount", folder=str(self.folder), point=str(point), **how)

    def _ask(self, **order: Any) -> Any:
        assert self._control is not None
        self._control.sendall(json.dumps(order).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._control.recv(4096)
            if not piece:
                raise RuntimeError("the process of the faulty disk is gone; what it said is above")
            answer += piece
        return json.loads(answer)

    def _close(self) -> None:
        assert self._control is not None
        assert self._process is not None
        self._control.close()  # it unmounts and ends
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel then refuses all that still waits
            self._process.wait()
        for point in self._points:
            if os.path.ismount(point):  # Path.is_mount raises where the server is dead
                unmount(point)
