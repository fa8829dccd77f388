"""What to do about it, with the names filled in. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Advice, Who
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.suspect import Suspect, Tier
from slurm_resilience.triage.known.entry import Remedy, Retry

_OF_THE_PROGRAM = frozenset(
    "AssertionError AttributeError ImportError IndentationError IndexError KeyError ModuleNotFoundError NameError "
    "NotImplementedError SyntaxError TypeError UnboundLocalError ValueError ZeroDivisionError".split()
)
"""Exceptions that the same program meets again with the same data."""
_FIELD = re.compile(r"\{(\w+)\}")


def advice_on(
    cause: Cause | None, root: Suspect | None, who: Who, facts: Facts, silent: Sequence[str]
) -> Advice | None:
    if root is None:
        return None if cause is None else _BY_CAUSE.get(cause)
    told = root.tier is Tier.CANCELLED and root.cause is Cause.CANCELLED
    if root.remedy is not None and not told and root.tier not in (Tier.TOLD, Tier.STEP_ENDED):
        return _of_entry(root.remedy, root, who, facts)
    match root.tier:
        case Tier.KILLED if root.signal == "SIGABRT":
            return _LAST_CALL
        case Tier.KILLED:
            command = f"dmesg -T | grep -iE 'killed process|oom'{_there(who)}"
            do = "find out who killed it: look for an out-of-memory kill in the kernel log of that node"
            return Advice(do, Retry.HELPS, command=command)
        case Tier.SILENT:
            do = "look at the node, and go on without it"
            node = who.node or (silent[0] if silent else None)
            show = None if node is None else f"scontrol show node {node}"
            return Advice(do, Retry.ELSEWHERE, command=show, avoid=() if node is None else (node,))
        case Tier.EXPLICIT | Tier.AFTER_A_PEER if root.known is None and not root.is_end:
            name = root.text.partition(":")[0].rpartition(".")[2].strip()
            useless = name in _OF_THE_PROGRAM
            place = f"{root.quotes[0].place}" if root.quotes else "the log"
            do = f"read the traceback that ends at {place}: it is the program's own"
            return Advice(do, Retry.USELESS if useless else Retry.UNKNOWN)
        case Tier.EXPLICIT:
            return _LAST_CALL
        case Tier.CANCELLED:
            return _BY_CAUSE.get(root.cause)
        case Tier.WORD:
            return _BY_CAUSE.get(root.cause)
        case Tier.TOLD | Tier.STEP_ENDED:
            return Advice("ask who, or what, sent the signal; start it again if it is to go on", Retry.HELPS)
        case Tier.LEFT | Tier.SEEN | Tier.WAITED | Tier.AFTER_A_PEER:
            return _LOOK


def _there(who: Who) -> str:
    return "" if who.node is None else f"   # on {who.node}"


def _of_entry(remedy: Remedy, root: Suspect, who: Who, facts: Facts) -> Advice:
    names = dict(root.groups)
    names.update({"job": facts.job or names.get("job", ""), "node": who.node or names.get("node", "")})
    command = None if remedy.command is None else filled(remedy.command, names)
    setting = None if remedy.setting is None else filled(remedy.setting, names)
    avoid = (names["node"],) if remedy.avoid_node and names["node"] else ()
    retry = remedy.retry
    if who.all_ranks and retry is Retry.ELSEWHERE:
        retry, avoid = Retry.USELESS, ()  # it was met on every node
    return Advice(filled(remedy.do, names), retry, command, setting, avoid)


def filled(text: str, names: Mapping[str, str]) -> str:
    """`{node}` by its name; what nobody knows stays a word in capitals, as in a manual."""
    return _FIELD.sub(lambda found: names.get(found[1]) or found[1].upper(), text)


def release_notes(root: Suspect | None, releases: Mapping[str, str]) -> tuple[str, ...]:
    """In which releases a wording is known, where the one that wrote it is known too."""
    known = None if root is None else root.known
    if known is None or (known.since is None and known.until is None):
        return ()
    told = [f"since {known.since}"] if known.since else []
    told += [f"up to {known.until}"] if known.until else []
    here = next((f"; here it is {name} {text}" for name, text in releases.items() if _same(name, known.writer)), "")
    return (f"this wording is known {' and '.join(told)}{here}",) if here else ()


def _same(name: str, writer: str) -> bool:
    return name == writer or (name == "torch" and writer in ("c10d", "elastic", "gloo", "nccl", "torch"))


_LOOK = Advice("look at the outputs of the ranks that left no word here: who died first wrote there", Retry.UNKNOWN)
_LAST_CALL = Advice(
    "look for the last library call in that process's output", Retry.UNKNOWN, setting="PYTHONFAULTHANDLER=1"
)
_GOES_ON = Advice("start it again: it goes on from its newest checkpoint", Retry.HELPS)
_BY_CAUSE: Mapping[Cause, Advice] = {
    Cause.PREEMPTED: Advice("let it be queued again: it goes on from its newest checkpoint", Retry.HELPS),
    Cause.TIME_LIMIT: _GOES_ON,
    Cause.WARNED: _GOES_ON,
    Cause.REQUEUED_BY_HAND: Advice("do nothing: Slurm starts it again by itself", Retry.HELPS),
    Cause.CANCELLED: Advice("ask who cancelled it; start it again if it is to go on", Retry.HELPS),
    Cause.CANCELLED_BY_ADMIN: Advice("ask the admins why before it is started again", Retry.UNKNOWN),
    Cause.OPERATOR_STOP: Advice("start it again when it is to go on", Retry.HELPS),
    Cause.NODE_FAILURE: Advice("look at the node, and go on without it", Retry.ELSEWHERE, command="sinfo -R"),
    Cause.SUPERVISOR_DIED: _GOES_ON,
    Cause.NEVER_STARTED: Advice("submit it again", Retry.HELPS),
    Cause.LAUNCH_FAILED: Advice("look at the nodes' states and reasons", Retry.ELSEWHERE, command="sinfo -R"),
    Cause.UNKNOWN: _LOOK,
    Cause.CRASHED: _LOOK,
}
