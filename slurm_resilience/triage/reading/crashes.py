"""What the C library, C++ and the interpreter say of a process that they end themselves. Pure."""

from __future__ import annotations

import re

HINTS = (
    "terminate called ",
    "Fatal Python error: ",
    " detected ***",
    "Assertion ",
    "double free or corruption",
    "corrupted size vs. prev_size",
    "(): invalid ",
    "(core dumped)",
    "pure virtual method called",
    "MPI_ABORT was invoked",
    "panicked at ",
)
_CRASH = re.compile(
    r"terminate called (?:after throwing an instance of|without an active exception|recursively)"
    r"|Fatal Python error: "
    r"|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*"
    r"|Assertion [`'].{1,2000}?['`] failed|Assertion failed: "
    r"|double free or corruption|corrupted size vs\. prev_size|(?:free|malloc|realloc|munmap_chunk)\(\): invalid "
    r"|(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)\s+\(core dumped\)"
    r"|pure virtual method called"
    r"|MPI_ABORT was invoked"
    r"|thread '.{0,80}' (?:\(\d+\) )?panicked at "
)


def crash_in(said: str) -> int | None:
    """Where the line begins to say so; None: it doesn't."""
    found = _CRASH.search(said[: 1 << 16])
    return None if found is None else found.start()
