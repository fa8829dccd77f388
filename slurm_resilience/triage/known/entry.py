"""One known failure: how its line looks, what it means and what to do. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause


class Role(enum.Enum):
    ROOT = "root"
    WAIT = "wait"  # somebody waited in vain: a root only where nobody says more
    CASCADE = "cascade"  # what others see of somebody's death: it never names the cause
    ADVICE = "advice"  # no news of anything


class Retry(enum.Enum):
    """Whether the same command may come through when it is started again."""

    HELPS = "a retry can help"
    ELSEWHERE = "a retry can help on other nodes"
    USELESS = "a retry meets the same end"
    UNKNOWN = "whether a retry helps is not known"


@dataclass(frozen=True, slots=True)
class Remedy:
    do: str
    """One sentence to the user, without its full stop."""
    retry: Retry
    command: str | None = None
    """To look closer, or to mend it; `{node}`, `{job}`, `{path}` stand for what is known."""
    setting: str | None = None
    """What to change: `--mem=…`, `NCCL_IB_TIMEOUT=22`."""
    avoid_node: bool = False
    """Whether the node where it happened should be left out of the next attempt."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    name: str
    """`slurm.time-limit`: by who writes it, then what it is; its fixture is tests/failures/slurm/time-limit.log."""
    title: str
    """What has happened, in a few words: `the kernel killed a process for want of memory`."""
    regex: str
    """Searched in one line (Python's `re`, on text). Named groups say who and where: rank, local_rank, node (a host's
    name as it stands there), nodes (a host list), pid, path, device, peer, code, signal, seq."""
    hints: tuple[str, ...]
    """Every line that `regex` knows has at least one of these, letter for letter: a quick search looks for them."""
    cause: Cause
    role: Role
    origin: str
    """Where the wording is from: `torch 2.13, run here`, `NCCL 2.30.7, src/transport/net_ib.cc`."""
    remedy: Remedy | None = None
    """None: nothing to say about it alone, as about cascades."""
    since: str | None = None
    """The first release of the writer that says it so, where that is known: `torch 2.4`."""
    until: str | None = None
    """The last one."""

    @property
    def writer(self) -> str:
        """`slurm`, `kernel`, `python`, `elastic`, `c10d`, `gloo`, `nccl`, `cuda`, …"""
        return self.name.partition(".")[0]
