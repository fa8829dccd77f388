"""Aborts and faults: whose line explains one, and which exceptions were only printed where somebody aborted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_resilience.triage.account.suspect import Suspect, Tier

_FAULTS = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
}
_OF_A_FAULT = "Fatal Python error: "
_BEFORE_AN_ABORT = ("what():", "terminate called")
"""So C++ says why it aborts; of an exception that nobody catches there."""


def of_another(suspect: Suspect, end: Suspect) -> bool:
    """An exception of Python's that ends a process makes it leave with 1: an abort of who didn't say it is no such."""
    return end.signal == "SIGABRT" and suspect.of_python and not suspect.ranks & end.ranks


def same_fault(suspect: Suspect, end: Suspect) -> bool:
    """The interpreter's last word of a fault, which doesn't say whose: somebody of that place ended by that signal."""
    if suspect.ranks or suspect.who.task is not None or not suspect.text.startswith(_OF_A_FAULT):
        return False
    said = suspect.text.removeprefix(_OF_A_FAULT)
    return end.signal is not None and _FAULTS.get(said.strip()) == end.signal and one_place(suspect, end)


def as_aborted(end: Suspect, others: Sequence[Suspect]) -> Suspect:
    """An abort that no line explains is as much as a kill: it began something. Not where C++ says why somebody of that
    node has aborted, and not who."""
    if end.signal != "SIGABRT" or not end.first:
        return end
    if any(one.nameless and one.text.lstrip().startswith(_BEFORE_AN_ABORT) and one_place(one, end) for one in others):
        return end
    return replace(end, tier=Tier.KILLED)


def lived_on(suspects: Sequence[Suspect], told: frozenset[int]) -> list[Suspect]:
    """Exceptions of Python's that were only printed: who aborted is another, and ended before their ranks did."""
    aborts = [one for one in suspects if one.is_end and one.signal == "SIGABRT" and one.tier is Tier.KILLED]

    def caught(one: Suspect) -> bool:
        if one.tier is not Tier.EXPLICIT or not one.of_python or one.ended:
            return False
        lived = bool(one.ranks) and one.ranks <= told
        return any(lived or bool(one.nodes & end.nodes) or (not one.ranks and one_place(one, end)) for end in aborts)

    return [replace(one, caught=True) if caught(one) else one for one in suspects]


def one_place(one: Suspect, end: Suspect) -> bool:
    return not one.nodes or not end.nodes or bool(one.nodes & end.nodes)
