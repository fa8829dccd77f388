"""Where one attempt's or one job's part of an output begins: outputs are appended to, and jobs share files. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

HINTS = (" of run ", "*** JOB ", "*** STEP ")
_ATTEMPT = re.compile(r"srun-resilient: attempt (\d{1,9}) of run (\S.*?) \([a-z-]+\), from ")
_JOB = re.compile(r"\*\*\* (?:JOB|STEP) (\d{1,12})[.\s]\S* ?")


@dataclass(frozen=True, slots=True)
class Mark:
    attempt: int | None = None
    """A new attempt begins with this line."""
    run: str | None = None
    job: str | None = None
    """Slurm speaks of this job: what follows until the next beginning is its too."""


def mark_in(line: str) -> Mark | None:
    begins = _ATTEMPT.search(line)
    if begins is not None:
        return Mark(attempt=int(begins[1]), run=begins[2])
    names = _JOB.search(line)
    return None if names is None else Mark(job=names[1])
