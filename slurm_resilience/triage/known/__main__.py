"""`python -m slurm_resilience.triage.known`: the table as a page, to standard output."""

from __future__ import annotations

import sys

from slurm_resilience.triage.known.page import page
from slurm_resilience.triage.known.table import TABLE

if __name__ == "__main__":
    sys.stdout.write(page(TABLE))
