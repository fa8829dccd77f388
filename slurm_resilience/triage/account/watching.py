"""Trouble that shows while a run still runs: what was seen so far, and what is seen now, to alarms. Pure.

Each is told once; what has passed and comes again is told again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from slurm_resilience.triage.event import Event
from slurm_resilience.triage.known.entry import Role

QUIET_S = 300.0
QUIET_LEAST_S = 60.0
QUIET_GAPS = 10
"""So many times the usual gap is quiet, once so many gaps are known."""
SLOW, WELL_AGAIN = 2.0, 1.5
"""How many times the usual time of a step is slow, and how many are well again."""
RECENT, LEAST_PACES, MOST = 3, 8, 200


class Kind(enum.Enum):
    QUIET = "quiet"
    SLOW = "slow"
    TROUBLE = "trouble"  # a line that some entry knows
    SAVE_FAILED = "save failed"
    AGENT_SILENT = "agent silent"


@dataclass(frozen=True, slots=True)
class Alarm:
    kind: Kind
    sentence: str
    time_s: float
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen at one moment."""

    now_s: float
    """On a clock that never jumps."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of the outputs, in bytes."""
    steps: Mapping[int, int] = field(default_factory=dict)
    """The last step of each rank, where the agents' records have them."""
    events: tuple[Event, ...] = ()
    """Of what has come since the last look."""
    saves_failed: tuple[str, ...] = ()
    """All of this attempt."""
    silent: tuple[str, ...] = ()
    """Nodes whose agents are not heard."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What is remembered from look to look."""

    quiet_after_s: float | None = None
    """As the user has said; None: by the usual gap."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    moved_s: float | None = None
    """When anything last moved: output or steps."""
    gaps_s: tuple[float, ...] = ()
    step: int | None = None
    stepped_s: float | None = None
    paces_s: tuple[float, ...] = ()
    """Seconds a step, look by look, the newest last."""
    standing: frozenset[str] = frozenset()
    """Alarms that still hold."""
    told: frozenset[str] = frozenset()
    """What is told only once."""

    @property
    def patience_s(self) -> float:
        if self.quiet_after_s is not None:
            return self.quiet_after_s
        if len(self.gaps_s) < QUIET_GAPS:
            return QUIET_S
        return max(QUIET_LEAST_S, QUIET_GAPS * median(self.gaps_s))


def watch(before: Watched, look: Look) -> tuple[Watched, tuple[Alarm, ...]]:
    """What is remembered now, and what is to be told."""
    now = _moved(before, look)
    alarms: list[Alarm] = []
    standing = set(now.standing)
    for name, alarm in (("quiet", _quiet(now, look)), ("slow", _slow(now, look))):
        if alarm is None:
            standing.discard(name)
        elif name not in standing:
            standing.add(name)
            alarms.append(alarm)
    for node in look.silent:
        if f"silent {node}" not in standing:
            sentence = f"the node agent on {node} is not heard any more, while others are"
            alarms.append(Alarm(Kind.AGENT_SILENT, sentence, look.now_s))
    others = {name for name in standing if not name.startswith("silent ")}
    standing = others | {f"silent {node}" for node in look.silent}
    told = set(now.told)
    for key, alarm in (*_lines(look), *_saves(look)):
        if key not in told:
            told.add(key)
            alarms.append(alarm)
    return replace(now, standing=frozenset(standing), told=frozenset(told)), tuple(alarms)


def _moved(before: Watched, look: Look) -> Watched:
    grown = any(size != before.sizes.get(name) for name, size in look.sizes.items())
    step = min(look.steps.values(), default=None)
    now = replace(before, sizes=dict(look.sizes))
    if step is not None and (before.step is None or step < before.step):  # the first look, or it began again
        now = replace(now, step=step, stepped_s=look.now_s, paces_s=())
        grown = True
    elif step is not None and before.step is not None and before.stepped_s is not None and step > before.step:
        pace_s = (look.now_s - before.stepped_s) / (step - before.step)
        now = replace(now, step=step, stepped_s=look.now_s, paces_s=(*now.paces_s, pace_s)[-MOST:])
        grown = True
    if before.moved_s is None:
        return replace(now, moved_s=look.now_s)
    if grown:
        gap_s = look.now_s - before.moved_s
        return replace(now, moved_s=look.now_s, gaps_s=(*now.gaps_s, gap_s)[-MOST:])
    return now


def _quiet(now: Watched, look: Look) -> Alarm | None:
    if now.moved_s is None or look.now_s - now.moved_s < now.patience_s:
        return None
    what = "no output and no step" if look.steps else "no output"
    sentence = f"{what} for {look.now_s - now.moved_s:.0f} s: it may hang"
    if look.steps:
        late = min(look.steps.values())
        ranks = sorted(rank for rank, step in look.steps.items() if step == late)
        if len(ranks) < len(look.steps):
            sentence += f"; behind the others, at step {late}: rank {', '.join(map(str, ranks[:8]))}"
    return Alarm(Kind.QUIET, sentence, look.now_s)


def _slow(now: Watched, look: Look) -> Alarm | None:
    if len(now.paces_s) < LEAST_PACES:
        return None
    usual_s, recent_s = median(now.paces_s), median(now.paces_s[-RECENT:])
    limit = WELL_AGAIN if "slow" in now.standing else SLOW
    if recent_s <= limit * usual_s:
        return None
    sentence = f"steps have become slow: {recent_s:.3g} s each, usually {usual_s:.3g} s"
    return Alarm(Kind.SLOW, sentence, look.now_s)


def _lines(look: Look) -> list[tuple[str, Alarm]]:
    """Roots and waits: what only follows from them, and advice, is no news while it runs."""
    found = []
    for event in look.events:
        known = event.known
        if known is not None and known.role not in (Role.ROOT, Role.WAIT):
            continue
        title = "a process was ended by an exception" if known is None else known.title
        key = f"line {event.text if known is None else known.name}"
        found.append((key, Alarm(Kind.TROUBLE, f"{title}: {event.text}", look.now_s, str(event.place))))
    return found


def _saves(look: Look) -> list[tuple[str, Alarm]]:
    return [(f"save {why}", Alarm(Kind.SAVE_FAILED, f"a save failed: {why}", look.now_s)) for why in look.saves_failed]
