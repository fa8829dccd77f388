"""All known failures in order of precedence, and the one that a line is. Pure."""

from __future__ import annotations

import functools
import re

from slurm_resilience.triage.known.c10d import C10D
from slurm_resilience.triage.known.containers import CONTAINERS
from slurm_resilience.triage.known.cuda import CUDA
from slurm_resilience.triage.known.dataloader import DATALOADER
from slurm_resilience.triage.known.elastic import ELASTIC
from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.known.frameworks import FRAMEWORKS
from slurm_resilience.triage.known.gloo import GLOO
from slurm_resilience.triage.known.kernel import KERNEL
from slurm_resilience.triage.known.mounts import MOUNTS
from slurm_resilience.triage.known.nccl import NCCL
from slurm_resilience.triage.known.nccl_fabric import NCCL_FABRIC
from slurm_resilience.triage.known.network import NETWORK
from slurm_resilience.triage.known.ours import OUR_WORDS, OURS
from slurm_resilience.triage.known.pgnccl import PGNCCL, PGNCCL_LAST
from slurm_resilience.triage.known.python import PYTHON
from slurm_resilience.triage.known.shell import SHELL
from slurm_resilience.triage.known.slurm import SLURM
from slurm_resilience.triage.known.slurm_launch import SLURM_LAUNCH
from slurm_resilience.triage.known.slurm_records import SLURM_RECORDS
from slurm_resilience.triage.known.storage import STORAGE
from slurm_resilience.triage.known.torch_program import TORCH
from slurm_resilience.triage.known.xid import XID

TABLE: tuple[KnownFailure, ...] = (
    *OUR_WORDS,
    *SLURM,
    *SLURM_LAUNCH,
    *SLURM_RECORDS,
    *XID,
    *KERNEL,
    *NETWORK,
    *MOUNTS,
    *CONTAINERS,
    *CUDA,
    *OURS,
    *NCCL_FABRIC,
    *NCCL,
    *PGNCCL,
    *GLOO,
    *DATALOADER,
    *FRAMEWORKS,
    *TORCH,
    *C10D,
    *ELASTIC,
    *SHELL,
    *STORAGE,
    *PYTHON,
    *PGNCCL_LAST,
)
"""What knows more stands before what knows less: Slurm's own words, the kernel's, then everybody else's."""

_PLACES: dict[str, list[int]] = {}
for _place, _entry in enumerate(TABLE):
    for _hint in _entry.hints:
        _PLACES.setdefault(_hint, []).append(_place)
HINTS: tuple[str, ...] = tuple(_PLACES)
"""What a quick search looks for: a line that has none of them is known by no entry."""


@functools.cache
def _regex(place: int) -> re.Pattern[str]:
    """Made when it is wanted: all of them take a tenth of a second, and a log needs a few."""
    return re.compile(TABLE[place].regex)


def known(line: str) -> KnownFailure | None:
    """The first entry of the table that knows the line."""
    places = {place for hint, at in _PLACES.items() if hint in line for place in at}
    return next((TABLE[place] for place in sorted(places) if _regex(place).search(line)), None)


def named(name: str) -> KnownFailure:
    """KeyError: there is none."""
    found = next((entry for entry in TABLE if entry.name == name), None)
    if found is None:
        raise KeyError(name)
    return found
