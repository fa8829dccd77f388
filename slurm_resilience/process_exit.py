"""Leaving a process without taking it apart."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn


def leave_at_once(code: int) -> NoReturn:
    """End with `code`, everything said being out: no module is torn down, no exit handler runs any more."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
