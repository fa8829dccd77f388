"""Which node agents have fallen silent: who was killed can't say so, and srun goes on waiting for the others.

A silence proves nothing: the agent's file system may hang for a minute while its ranks compute. So the others are asked
to save and stop, which loses no step if the silent one lives; and nobody is silent as long as nobody else is heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_resilience.environment_variable import quantity
from slurm_resilience.errors import ConfigurationError

VARIABLE = "SLURM_RESILIENCE_SILENT_AFTER"
SILENT_AFTER_S = 60.0
BEATS = 6
"""So many in that time: as many may be late or lost."""
LEAST_S = 6.0
ABSENT_S = 3.0
"""Looks are a second apart: who hasn't looked for longer was not running."""


def silent_after_s(environment: Mapping[str, str]) -> float:
    """How long an agent may be silent; 0: for ever. Raises ConfigurationError for what is no time."""
    seconds = quantity(environment, VARIABLE, "seconds")
    if seconds is None:
        return SILENT_AFTER_S
    if 0 < seconds < LEAST_S:
        raise ConfigurationError(f"{VARIABLE}={seconds:g}: it is at least {LEAST_S:g} seconds, or 0 for never")
    return seconds


@dataclass(frozen=True, slots=True)
class Beat:
    """What an agent's record looks like from here."""

    version: tuple[int, int]
    """Whatever changes when it is written or touched: compared, never read as a time, so that clocks may differ."""
    running: bool
    """Whether the record says that the agent is at work."""


@dataclass
class Pulse:
    after_s: float
    """0: nobody is ever silent."""
    _heard: dict[int, tuple[tuple[int, int], float]] = field(default_factory=dict)
    """Of each agent the last version and when it was first seen, on our monotonic clock."""
    _looked_s: float | None = None

    @property
    def beat_s(self) -> float:
        return self.after_s / BEATS

    def silent(self, beats: Mapping[int, Beat], now_s: float) -> tuple[int, ...]:
        """The agents at work that said nothing for `after_s` while another one was heard, by node id."""
        if self._looked_s is not None and now_s - self._looked_s > max(2 * self.beat_s, ABSENT_S):
            # We ourselves were not there: a suspended job wakes up with all its agents, one after the other.
            self._heard = {agent: (version, now_s) for agent, (version, _) in self._heard.items()}
        self._looked_s = now_s
        for agent, beat in beats.items():
            known = self._heard.get(agent)
            if known is None or known[0] != beat.version:
                self._heard[agent] = (beat.version, now_s)
        if self.after_s <= 0:
            return ()
        ages = {agent: now_s - self._heard[agent][1] for agent, beat in beats.items() if beat.running}
        if not any(age <= 2 * self.beat_s for age in ages.values()):
            return ()  # the file system is silent, or there is only this one
        return tuple(agent for agent, age in sorted(ages.items()) if age >= self.after_s)
