"""The grace ladder: everything that has a deadline, from what Slurm says and what this run measured. Pure.

Slurm's numbers are coarse: a warning by `--signal` can come 60 s early, the kill up to 30 s late. Only KillWait after a
SIGTERM is a promise; GraceTime before it is one for preemption alone.
"""

from __future__ import annotations

from dataclasses import dataclass

LAST_WORDS_S = 3.0
"""Kept back at the end of every time we are given: the agent's record, the journal, `scontrol requeue`."""
WARNING_EARLIEST_S = 60.0
"""How much earlier than asked Slurm may send `--signal` (man sbatch)."""
UNMEASURED_LEAD_S = 60.0
"""How long before the end of time to stop while nothing is measured yet."""
MIN_TIME_S = 1.0


@dataclass(frozen=True, slots=True)
class SlurmTimes:
    """What Slurm grants, in seconds."""

    kill_wait_s: float
    grace_time_s: float
    end_s: float | None
    """End of the job's time, since the epoch; None: none known."""
    start_s: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What this run needed so far, in seconds; None: not measured yet."""

    step_s: float | None = None
    save_s: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user fixed; None: computed."""

    stop_before_end_s: float | None = None
    stop_timeout_s: float | None = None
    leave_s: float = 10.0
    peer_failed_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Rung:
    name: str
    seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class Ladder:
    after_termination_s: float
    after_warning_s: float
    stop_before_end_s: float
    leave_s: float
    peer_failed_s: float
    shutdown_timeout_s: float
    """For torchrun: never shorter than what the ranks are given."""
    rungs: tuple[Rung, ...]
    inversions: tuple[str, ...]
    """One sentence each: what can't work in the time there is."""


def _lead_s(times: SlurmTimes, measured: Measured, asked: Asked) -> tuple[float, str]:
    """How long before the end of time the ranks are asked to stop: at most a quarter of the whole time."""
    if asked.stop_before_end_s is not None:
        return max(0.0, asked.stop_before_end_s), "as you asked"
    if measured.step_s is None and measured.save_s is None:
        wanted, source = UNMEASURED_LEAD_S, "nothing measured yet"
    else:
        wanted = 20.0 + 2 * (measured.step_s or 0.0) + 2 * (measured.save_s or 0.0)
        source = "20 s and twice the longest step and save of this run"
    if times.end_s is not None and times.start_s is not None:
        quarter = max(0.0, times.end_s - times.start_s) / 4
        if quarter < wanted:
            return quarter, "a quarter of the job's whole time"
    return wanted, source


def climb(times: SlurmTimes, measured: Measured, asked: Asked) -> Ladder:
    """All deadlines. None is negative; a longer grant never shortens one of them."""
    promise_s = max(MIN_TIME_S, times.kill_wait_s - LAST_WORDS_S)
    after_termination_s = max(0.0, times.grace_time_s) + promise_s
    stop_s = (measured.step_s or 0.0) * 2 + (measured.save_s or 0.0)
    if asked.stop_timeout_s is not None:
        after_warning_s = max(MIN_TIME_S, asked.stop_timeout_s)
    else:
        after_warning_s = max(600.0, 3 * stop_s)
    # Everything is durable by then: what can't leave in a quarter of the promise must not cost the requeue.
    leave_s = min(max(0.0, asked.leave_s), max(MIN_TIME_S, times.kill_wait_s / 4))
    lead_s, lead_source = _lead_s(times, measured, asked)
    inversions = []
    if stop_s > after_termination_s:
        inversions.append(
            f"two steps and a save take {stop_s:.0f} s in this run, but Slurm grants {after_termination_s:.0f} s from "
            f"SIGTERM to SIGKILL (GraceTime {times.grace_time_s:.0f} s, KillWait {times.kill_wait_s:.0f} s): "
            "a preemption will lose what came after the last periodic checkpoint"
        )
    if times.end_s is not None and 0 < lead_s < stop_s:
        inversions.append(
            f"two steps and a save take {stop_s:.0f} s in this run, but the stop before the end of time begins only "
            f"{lead_s:.0f} s before it: give --stop-before-end a larger number"
        )
    rungs = (
        Rung("KillWait", times.kill_wait_s, "Slurm: from the last SIGTERM to SIGKILL, the only promise"),
        Rung("GraceTime", times.grace_time_s, "the partition: from a preemption's first SIGTERM to the last"),
        Rung("stop after SIGTERM", after_termination_s, f"GraceTime + KillWait - {LAST_WORDS_S:g} s for last words"),
        Rung("stop after a warning", after_warning_s, "no deadline is known: at least 600 s, or what you asked"),
        Rung("stop before the end of time", lead_s, lead_source),
        Rung("two steps and a save", stop_s, "measured in this run" if stop_s else "not measured yet"),
        Rung("leave after the save", leave_s, "what is left of the node's processes is killed then"),
        Rung("after a peer's failure", asked.peer_failed_s, "nobody to go on with"),
    )
    return Ladder(
        after_termination_s=after_termination_s,
        after_warning_s=after_warning_s,
        stop_before_end_s=lead_s,
        leave_s=leave_s,
        peer_failed_s=max(0.0, asked.peer_failed_s),
        shutdown_timeout_s=max(after_termination_s, after_warning_s),
        rungs=rungs,
        inversions=tuple(inversions),
    )
