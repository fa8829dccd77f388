"""The runs with one fault each."""

from __future__ import annotations

from tests.failures.record_deaths import KILLED, MEMORY, NODES
from tests.failures.record_errors import BUGS
from tests.failures.record_surroundings import HANGS, NETWORK, SLURM, STORAGE

FAULTS = (*KILLED, *NODES, *MEMORY, *STORAGE, *NETWORK, *HANGS, *BUGS, *SLURM)
