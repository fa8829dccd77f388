"""Takes things down when the process that wanted them is gone, however it went."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence

WAIT = "cat > /dev/null"
"""It ends when nobody holds the other end of the pipe any more."""


def start_guard(*commands: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Runs `commands`, each whatever became of those before it, once its standard input is closed."""
    script = "\n".join([WAIT, *(f"{shlex.join(command)} > /dev/null 2>&1" for command in commands)])
    return subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        env={**os.environ, **env},
        cwd="/",
        start_new_session=True,  # Ctrl-C is meant for the tests
    )
