"""Standing back: a writer must not cost the training its processor or its disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform

_NICEST = 19
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273}
_OF_A_PROCESS = 1
_BEST_EFFORT, _LOWEST = 2, 7  # not the idle class: beside a training that reads all the time it never gets its turn


def stand_back(pid: int) -> None:
    """Give process `pid`, just started, the lowest claims. Where that is refused it works all the same."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICEST)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(
            ctypes.c_long(number),
            ctypes.c_int(_OF_A_PROCESS),
            ctypes.c_int(pid),
            ctypes.c_int(_BEST_EFFORT << 13 | _LOWEST),
        )
