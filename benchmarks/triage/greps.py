"""grep with the same patterns: with the texts that known lines have, and with the expressions themselves."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.triage.known.table import TABLE

_REWRITES = (
    (r"\(\?P<\w+>", "("),
    (r"\(\?:", "("),
    (r"\(\?<?[=!][^()]*\)", ""),  # what stands before or behind: grep -E has no such thing
    (r"\\d", "[0-9]"),
    (r"\[\\w", "[[:alnum:]_"),
    (r"(?<=\[)([^\]]*)\\w", r"\1[:alnum:]_"),
    (r"([+*?}])\?", r"\1"),
)


def write_patterns(folder: Path) -> dict[str, Path]:
    """Files for `grep -f`, by grep's option."""
    texts = sorted({hint for entry in TABLE for hint in entry.hints})
    expressions = []
    for entry in TABLE:
        expression = entry.regex
        for what, by in _REWRITES:
            expression = re.sub(what, by, expression)
        # One that grep doesn't take must not spoil the others.
        tried = subprocess.run(["grep", "-E", expression, "/dev/null"], capture_output=True, check=False)
        if tried.returncode == 1:
            expressions.append(expression)
    files = {"-F": folder / "texts", "-E": folder / "expressions"}
    files["-F"].write_text("\n".join(texts) + "\n")
    files["-E"].write_text("\n".join(expressions) + "\n")
    return files


def seconds(option: str, patterns: Path, folder: Path, processes: int, limit_s: float) -> float | None:
    """Counting the lines of each file, the files dealt to so many greps; None: it took longer than `limit_s`."""
    names = sorted(str(path) for path in folder.iterdir())
    shares: list[Sequence[str]] = [names[first::processes] for first in range(processes)]
    environment = {**os.environ, "LC_ALL": "C"}  # bytes, as we: in UTF-8 it takes longer
    with tempfile.TemporaryFile() as counts:  # into /dev/null grep would stop at the first match
        begun_s = time.perf_counter()
        greps = [
            subprocess.Popen(
                ["grep", "-a", "-c", option, "-f", str(patterns), *share],
                stdout=counts,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            for share in shares
        ]
        try:
            for grep in greps:
                grep.wait(max(0.1, begun_s + limit_s - time.perf_counter()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            for grep in greps:
                grep.kill()
                grep.wait()
        return time.perf_counter() - begun_s
