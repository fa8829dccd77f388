"""One verb for each role: an entry of the table in as few words as it needs. Pure."""

from __future__ import annotations

from functools import partial

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Remedy, Retry, Role

NODE = r"(?P<node>[\w.-]+)"
"""A host name."""
NODES = r"(?P<nodes>[\w.,\[\]-]+)"
"""A host list as Slurm writes it: `n[1-4]`."""

Hints = tuple[str, ...]


def _named(
    role: Role,
    name: str,
    title: str,
    regex: str,
    hints: str | Hints,
    cause: Cause,
    origin: str,
    *,
    do: str,
    retry: Retry,
    command: str | None = None,
    setting: str | None = None,
    avoid_node: bool = False,
    since: str | None = None,
    until: str | None = None,
) -> KnownFailure:
    remedy = Remedy(do, retry, command, setting, avoid_node)
    return KnownFailure(name, title, regex, _tuple(hints), cause, role, origin, remedy, since, until)


root = partial(_named, Role.ROOT)
"""What names the cause."""
wait = partial(_named, Role.WAIT)
"""What somebody says who waited in vain: mostly for one that hung."""


def cascade(
    name: str,
    title: str,
    regex: str,
    hints: str | Hints,
    origin: str,
    *,
    remedy: Remedy | None = None,
    since: str | None = None,
    until: str | None = None,
) -> KnownFailure:
    """What others see of somebody's death, or what is left of it."""
    return KnownFailure(name, title, regex, _tuple(hints), Cause.CRASHED, Role.CASCADE, origin, remedy, since, until)


def advice(
    name: str,
    title: str,
    regex: str,
    hints: str | Hints,
    origin: str,
    *,
    do: str | None = None,
    command: str | None = None,
    setting: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> KnownFailure:
    """No news of anything: what stands beside an error, or a word that a healthy run has too."""
    remedy = None if do is None else Remedy(do, Retry.UNKNOWN, command, setting)
    return KnownFailure(name, title, regex, _tuple(hints), Cause.UNKNOWN, Role.ADVICE, origin, remedy, since, until)


def _tuple(hints: str | Hints) -> Hints:
    return (hints,) if isinstance(hints, str) else hints
