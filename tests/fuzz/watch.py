"""Python's own audit events, while a part is read: what a reader has no business doing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_FORBIDDEN = (
    *(
        "exec",
        "compile",
        "import",
        "pickle.",
        "marshal.",
        "code.__new__",
        "function.__new__",
        "ctypes.dl",
        "subprocess.",
    ),
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.kill", "os.remove", "os.rename", "os.rmdir"),
    *("os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.putenv", "shutil.", "socket."),
    *("tempfile.", "urllib.", "webbrowser.", "builtins.input", "builtins.breakpoint", "sys.settrace", "signal."),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """Inside `with`, events are noted. A hook can't be taken away again: make one a process."""

    def __init__(self, allowed: Path) -> None:
        """Files below `allowed` may be opened for reading."""
        self._allowed = f"{allowed}{os.sep}"
        self._watching = False
        self._seen: list[str] = []
        sys.addaudithook(self._hear)

    def __enter__(self) -> None:
        self._watching = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watching = False

    def seen(self) -> list[str]:
        seen, self._seen = self._seen, []
        return seen

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        if event == "open":
            path, _mode, flags = arguments
            if flags & _WRITING:
                self._seen.append(f"opened {path!r} to write to it")
            elif isinstance(path, str) and not path.startswith((self._allowed, "/proc/self", "/sys/")):
                self._seen.append(f"opened {path!r}, which is not the part's")
        elif event.startswith(_FORBIDDEN):
            self._seen.append(f"{event} {str(arguments)[:100]}")
