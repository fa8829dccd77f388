"""The grace ladder: everything that has a deadline, from what Slurm says and what this run measured. Pure.

Slurm's numbers are coarse: a warning by `--signal` can come 60 s early, the kill up to 30 s late. Only KillWait after a
SIGTERM is a promise; GraceTime before it is one for preemption alone. All of it is explained in docs/grace_ladder.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.signals.ladder_inversions import Stops, inversions
from slurm_resilience.signals.ladder_terms import (
    EXIT_BARRIER_S,
    LAST_WORDS_S,
    MIN_TIME_S,
    UNKILLABLE_LEAST_S,
    UNMEASURED_LEAD_S,
    WARNED_LEAST_S,
    WARNING_EARLIEST_S,
    Asked,
    Measured,
    SlurmTimes,
)
from slurm_resilience.signals.user_signal import UserSignal

__all__ = [
    "LAST_WORDS_S",
    "Asked",
    "Ladder",
    "Measured",
    "Rung",
    "SlurmTimes",
    "climb",
    "lead_s",
    "refuse_what_cannot_work",
]


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
    wait_s: float
    """For srun's --wait: how much longer than the first node the last one may take."""
    rungs: tuple[Rung, ...]
    inversions: tuple[str, ...]
    """One sentence each: what can't work in the time there is."""


def lead_s(times: SlurmTimes, measured: Measured, asked: Asked) -> tuple[float, str]:
    """How long before the end of time the ranks are asked to stop, and why: at most a quarter of the whole time."""
    if asked.stop_before_end_s is not None:
        return max(0.0, asked.stop_before_end_s), "as you asked"
    if measured.step_s is None and measured.save_s is None:
        wanted, source = UNMEASURED_LEAD_S, "nothing measured yet"
    else:
        wanted = 20.0 + 2 * (measured.step_s or 0.0) + 2 * (measured.save_s or 0.0)
        source = "20 s and twice the longest step and save of this run"
    if times.whole_s is not None and times.whole_s / 4 < wanted:
        return times.whole_s / 4, "a quarter of the job's whole time"
    return wanted, source


def climb(times: SlurmTimes, measured: Measured, asked: Asked) -> Ladder:
    """All deadlines. None is negative; a longer grant never shortens one of them.

    Raises ConfigurationError for what can't work at all: a stop that is to begin before the job does.
    """
    refuse_what_cannot_work(times, asked)
    promise_s = max(MIN_TIME_S, times.kill_wait_s - LAST_WORDS_S)
    after_termination_s = times.used_grace_s + promise_s
    if asked.stop_timeout_s is not None:
        after_warning_s = max(MIN_TIME_S, asked.stop_timeout_s)
    else:
        after_warning_s = max(WARNED_LEAST_S, 3 * measured.stop_s)
    # Everything is durable by then: what can't leave in a quarter of the promise must not cost the requeue.
    leave_s = min(max(0.0, asked.leave_s), max(MIN_TIME_S, times.kill_wait_s / 4))
    peer_failed_s = max(0.0, asked.peer_failed_s)
    before_end_s, lead_source = lead_s(times, measured, asked)
    longest_stop_s = max(after_termination_s, after_warning_s)
    shutdown_s = longest_stop_s + leave_s
    # The first node may be done at once while another still saves, or sits in torchrun's barrier.
    wait_s = max(longest_stop_s, measured.stop_s, EXIT_BARRIER_S) + leave_s + LAST_WORDS_S
    signal = times.user_signal
    rungs = (
        Rung("KillWait", times.kill_wait_s, times.kill_wait_of),
        Rung("GraceTime", times.grace_time_s, _grace_source(times)),
        Rung("OverTimeLimit", times.over_time_limit_s, "Slurm: how much later than the end of time it ends the job"),
        *(() if signal is None else (Rung(f"--signal {signal.name}", signal.lead_s, _signal_source(signal)),)),
        Rung("stop after SIGTERM", after_termination_s, f"GraceTime + KillWait - {LAST_WORDS_S:g} s for last words"),
        Rung("stop after a warning", after_warning_s, _warning_source(asked)),
        Rung("stop before the end of time", before_end_s, lead_source),
        Rung(
            "two steps and a save", measured.stop_s, "measured in this run" if measured.stop_s else "not measured yet"
        ),
        Rung("leave after the save", leave_s, "what is left of the node's processes is killed then"),
        Rung("after a peer's failure", peer_failed_s, "nobody to go on with"),
        Rung("torchrun's shutdown", shutdown_s, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: the longest stop, and leaving"),
        Rung("torchrun's exit barrier", EXIT_BARRIER_S, "torch: how long a node that is done waits for the others"),
        Rung("srun --wait", wait_s if asked.wait_s is None else asked.wait_s, _wait_source(asked)),
        Rung("UnkillableStepTimeout", UNKILLABLE_LEAST_S, "not asked: Slurm's least, from SIGKILL to a drained node"),
    )
    stops = Stops(after_termination_s, before_end_s, shutdown_s, wait_s if asked.wait_s is None else asked.wait_s)
    return Ladder(
        after_termination_s=after_termination_s,
        after_warning_s=after_warning_s,
        stop_before_end_s=before_end_s,
        leave_s=leave_s,
        peer_failed_s=peer_failed_s,
        shutdown_timeout_s=shutdown_s,
        wait_s=wait_s,
        rungs=rungs,
        inversions=inversions(stops, times, measured),
    )


def refuse_what_cannot_work(times: SlurmTimes, asked: Asked) -> None:
    """Raises ConfigurationError."""
    whole_s, wanted_s = times.whole_s, asked.stop_before_end_s
    if whole_s is not None and wanted_s is not None and wanted_s > whole_s:
        raise ConfigurationError(
            f"--stop-before-end={wanted_s:g} is longer than the job's whole time ({whole_s:.0f} s): it would stop "
            "before it starts"
        )


def _grace_source(times: SlurmTimes) -> str:
    if times.preempt_mode == "OFF":
        return f"{times.grace_of}, not used: nothing is preempted here"
    if "SUSPEND" in times.preempt_mode:
        return f"{times.grace_of}, not used: a preemption suspends the job"
    return f"{times.grace_of}: from a preemption's first SIGTERM to the last"


def _signal_source(signal: UserSignal) -> str:
    whom = "the batch shell alone" if signal.batch_shell else "the steps"
    return f"{signal.source}: to {whom}, up to {WARNING_EARLIEST_S:g} s earlier"


def _warning_source(asked: Asked) -> str:
    return "no deadline is known: " + ("as you asked" if asked.stop_timeout_s is not None else "at least 600 s")


def _wait_source(asked: Asked) -> str:
    if asked.wait_s is not None:
        return "as you asked" + ("; 0: for ever" if asked.wait_s == 0 else "")
    return "the longest stop or torchrun's barrier, and leaving: how much longer the last node may take"
