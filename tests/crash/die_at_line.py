"""The crash sweep's tool: run an action in a child that is gone for good at a chosen line.

::

    number = 1
    while die_at_line(number, action):
        ...what the dead child left behind is inert...
        number += 1
    ...and here the action got to its end...
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import slurm_resilience

PACKAGE = Path(slurm_resilience.__file__).parent

_DIED = 113
_GOT_TO_THE_END = 114


def die_at_line(number: int, action: Callable[[], None], *, within: Sequence[Path] = (PACKAGE,)) -> bool:
    """Run `action` in a child that is gone for good at its `number`-th line. False: it got to the end.

    Lines are counted from 1, as they are about to be executed, in files whose path starts with one of `within`,
    in every thread. The child leaves by `os._exit`: no `finally`, no flush, no exit hook runs, as with kill -9.
    An action that raises is a broken test and raises AssertionError here, with the child's traceback.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of fork beside threads; the child only runs `action` and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_count_down(number, action, tuple(f"{path}" for path in within), writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        complaint = pipe.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == _DIED:
        return True
    if code == _GOT_TO_THE_END:
        return False
    raise AssertionError(f"the action left with {code} before line {number}:\n{complaint}")


def _count_down(number: int, action: Callable[[], None], within: tuple[str, ...], complaints: int) -> int:
    left = number

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left <= 0:
                os._exit(_DIED)
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(within) else None

    try:
        threading.settrace(enter)
        sys.settrace(enter)
        try:
            action()
        finally:
            sys.settrace(None)
    except BaseException:  # noqa: BLE001 the child has nobody else to tell
        os.write(complaints, traceback.format_exc().encode()[:60_000])
        return 1
    return _GOT_TO_THE_END
