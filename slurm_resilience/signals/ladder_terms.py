"""What the grace ladder is made of: Slurm's grants, what this run measured, what the user fixed."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.signals.user_signal import UserSignal

LAST_WORDS_S = 3.0
"""Kept back at the end of every time we are given: the agent's record, the journal, `scontrol requeue`."""
WARNING_EARLIEST_S = 60.0
"""How much earlier than asked Slurm may send `--signal` (man sbatch)."""
UNMEASURED_LEAD_S = 60.0
"""How long before the end of time to stop while nothing is measured yet."""
WARNED_LEAST_S = 600.0
"""What a warning without a deadline is worth at least."""
EXIT_BARRIER_S = 300.0
"""How long torchrun, done on its node, waits for the others (torch 2.13, fixed)."""
UNKILLABLE_LEAST_S = 60.0
"""Slurm's UnkillableStepTimeout: 60 s, or five times MessageTimeout if that is longer, where a site says nothing."""
MIN_TIME_S = 1.0


@dataclass(frozen=True, slots=True)
class SlurmTimes:
    """What Slurm grants, in seconds."""

    kill_wait_s: float
    grace_time_s: float
    end_s: float | None
    """End of the job's time, since the epoch; None: none known."""
    start_s: float | None
    over_time_limit_s: float = 0.0
    """How much later than that Slurm ends the job."""
    kill_wait_of: str = "Slurm: from the last SIGTERM to SIGKILL, the only promise"
    """Who grants it, as people read it."""
    grace_of: str = "the partition"
    """Whose GraceTime it is."""
    preempt_mode: str = ""
    """REQUEUE, CANCEL, SUSPEND or OFF; empty: unknown."""
    user_signal_first: bool = False
    """A preemption sends the job's own --signal, and no SIGTERM before its grace is over."""
    user_signal: UserSignal | None = None
    """The job's --signal; None: none is known."""

    @property
    def whole_s(self) -> float | None:
        if self.end_s is None or self.start_s is None:
            return None
        return max(0.0, self.end_s - self.start_s)

    @property
    def used_grace_s(self) -> float:
        """No preemption that suspends, and none that never comes, grants any time."""
        unused = self.preempt_mode == "OFF" or "SUSPEND" in self.preempt_mode
        return 0.0 if unused else max(0.0, self.grace_time_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """What this run needed so far, in seconds; None: not measured yet."""

    step_s: float | None = None
    save_s: float | None = None

    @property
    def stop_s(self) -> float:
        """From being asked to everything being saved: the step under way, one more to agree on, a save."""
        return 2 * (self.step_s or 0.0) + (self.save_s or 0.0)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user fixed; None: computed."""

    stop_before_end_s: float | None = None
    stop_timeout_s: float | None = None
    leave_s: float = 10.0
    peer_failed_s: float = 10.0
    wait_s: float | None = None
    """A plain command's own srun --wait; 0: srun waits for ever."""
