"""One suspect for each process whose end somebody has told. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Who
from slurm_resilience.triage.account.death import Death, Manner
from slurm_resilience.triage.account.suspect import Suspect, Tier


def of_deaths(ends: Sequence[Death]) -> list[Suspect]:
    """One for each process: the same end, told by several, once."""
    heaps: dict[tuple[str, object], list[Death]] = {}
    for death in ends:
        if death.manner is not Manner.TOLD:
            who = death.who
            key: object = ("task", who.task, who.node)
            if who.rank is not None:
                key = ("rank", who.rank)
            elif death.pid is not None and who.task is None:
                key = ("pid", death.pid)
            heaps.setdefault(("end", key), []).append(death)
    told = [_of_ends(heap) for heap in heaps.values()]
    with_ranks = {node for one in told if one.who.rank is not None for node in one.nodes}
    # Where a rank's end is told, that of the task above it, or of its node's command, is no news.
    return [one for one in told if one.who.rank is not None or not one.nodes & with_ranks]


def _of_ends(heap: list[Death]) -> Suspect:
    weight = {Manner.FAULT: 0, Manner.KILLED: 1, Manner.ABORTED: 2, Manner.LEFT: 3, Manner.TOLD: 4}
    known_s = [death.time_s for death in heap if death.time_s is not None]
    best = min(heap, key=lambda death: (weight[death.manner], death.said_by, death.time_s or 0.0))
    who = next((death.who for death in heap if death.who.node is not None), best.who)
    name = str(Who(who.rank, None, who.task)) or "a process"
    tier = {Manner.FAULT: Tier.EXPLICIT, Manner.KILLED: Tier.KILLED}.get(best.manner, Tier.LEFT)
    quotes = tuple(dict.fromkeys(death.quote for death in heap if death.quote is not None))
    return Suspect(
        tier=tier,
        cause=Cause.CRASHED,
        title=f"{name} {best.how}",
        who=who,
        time_s=min(known_s, default=None),
        quotes=quotes,
        ranks=frozenset() if who.rank is None else frozenset({who.rank}),
        nodes=frozenset() if who.node is None else frozenset({who.node}),
        signal=best.signal,
        is_end=True,
        first=any(death.first for death in heap),
        why=best.how,
    )
