"""A process that doesn't outlive the one that has started it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def _find_prctl() -> Callable[..., int] | None:
    try:
        prctl: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # a libc without it
        return None
    return prctl


_prctl = _find_prctl()  # at import: between fork and exec it would be too late


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when the thread that has started it ends; here and now, if it is gone already.

    `parent` is the starter's number: taken before the fork, where the child is ours. False: the kernel refuses, and
    this process lives on as it did. May be called between fork and exec.
    """
    held = _prctl is not None and _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0
    if os.getppid() != parent:  # it ended before we had asked to end with it
        os.kill(os.getpid(), signal.SIGKILL)
    return held
