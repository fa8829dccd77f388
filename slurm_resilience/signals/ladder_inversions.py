"""What can't work in the time there is: one sentence each, which names the numbers and the way out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.signals.ladder_terms import WARNING_EARLIEST_S, Measured, SlurmTimes
from slurm_resilience.signals.user_signal import UserSignal

HEARD = frozenset({"TERM", "HUP", "USR1", "USR2", "INT"})
"""What a node agent listens to; the supervisor listens to the same."""
_LIKE_A_KILL = frozenset({"TERM", "HUP"})


@dataclass(frozen=True, slots=True)
class Stops:
    """How long the ladder gives a stop, seconds."""

    after_termination_s: float
    before_end_s: float
    shutdown_s: float
    wait_s: float
    """0: srun waits for ever."""


def inversions(stops: Stops, times: SlurmTimes, measured: Measured) -> tuple[str, ...]:
    found = [_grace(stops, times, measured), _lead(stops, times, measured), _suspension(times)]
    if times.user_signal is not None:
        found += _user_signal(times.user_signal, stops, times, measured)
    if measured.stop_s > stops.shutdown_s:
        found.append(
            f"{_takes(measured)}, but torchrun ends its ranks after {stops.shutdown_s:.0f} s: give --stop-timeout a "
            "larger number"
        )
    if 0 < stops.wait_s < (measured.save_s or 0.0):
        found.append(
            f"a save takes {measured.save_s:.0f} s in this run, but srun's --wait={stops.wait_s:.0f} kills the other "
            "nodes that long after the first has left: leave it out"
        )
    return tuple(sentence for sentence in found if sentence is not None)


def _takes(measured: Measured) -> str:
    return f"two steps and a save take {measured.stop_s:.0f} s in this run"


def _grace(stops: Stops, times: SlurmTimes, measured: Measured) -> str | None:
    if measured.stop_s <= stops.after_termination_s:
        return None
    where = f"GraceTime {times.used_grace_s:.0f} s, KillWait {times.kill_wait_s:.0f} s"
    if times.used_grace_s == 0:
        where = f"there is no GraceTime, only KillWait {times.kill_wait_s:.0f} s"
    return (
        f"{_takes(measured)}, but Slurm grants {stops.after_termination_s:.0f} s from SIGTERM to SIGKILL ({where}): "
        "a preemption will lose what came after the last periodic checkpoint"
    )


def _lead(stops: Stops, times: SlurmTimes, measured: Measured) -> str | None:
    if times.end_s is None or not 0 < stops.before_end_s < measured.stop_s:
        return None
    return (
        f"{_takes(measured)}, but the stop before the end of time begins only {stops.before_end_s:.0f} s before it: "
        "give --stop-before-end a larger number"
    )


def _suspension(times: SlurmTimes) -> str | None:
    if "SUSPEND" not in times.preempt_mode:
        return None
    return "a preemption suspends this job without a word: no signal comes, nothing is saved, it goes on afterwards"


def _user_signal(signal: UserSignal, stops: Stops, times: SlurmTimes, measured: Measured) -> list[str | None]:
    name = f"{signal.source} ({signal.name} {signal.lead_s:g} s before the end)"
    return [
        _unheard(name, signal),
        _never_sent(name, signal, times),
        _sent_too_late(name, signal, stops, times, measured),
        _sent_at_the_start(name, signal, times),
        _taken_for_a_kill(name, signal, stops),
        _instead_of_sigterm(signal, times),
    ]


def _unheard(name: str, signal: UserSignal) -> str | None:
    if signal.name in HEARD:
        return None
    return f"{name}: srun-resilient does not listen to {signal.name}, and some signals end what they reach: take USR1"


def _never_sent(name: str, signal: UserSignal, times: SlurmTimes) -> str | None:
    if signal.lead_s > 0 or times.user_signal_first:
        return None
    return f"{name}: with 0 seconds Slurm never sends it at the time limit"


def _sent_too_late(name: str, signal: UserSignal, stops: Stops, times: SlurmTimes, measured: Measured) -> str | None:
    if not 0 < signal.lead_s < measured.stop_s:
        return None
    instead = "give it a larger number"
    if stops.before_end_s > signal.lead_s and times.end_s is not None:
        instead = f"srun-resilient stops by itself {stops.before_end_s:.0f} s before the end"
    return f"{name} comes too late: {_takes(measured)}; {instead}"


def _sent_at_the_start(name: str, signal: UserSignal, times: SlurmTimes) -> str | None:
    if times.whole_s is None or signal.lead_s == 0 or signal.lead_s + WARNING_EARLIEST_S < times.whole_s:
        return None
    return (
        f"{name}: Slurm may send it {WARNING_EARLIEST_S:g} s earlier, and the whole time is {times.whole_s:.0f} s: it "
        "may come as soon as the job starts"
    )


def _taken_for_a_kill(name: str, signal: UserSignal, stops: Stops) -> str | None:
    if signal.name not in _LIKE_A_KILL:
        return None
    if signal.batch_shell and signal.name == "TERM":
        return f"{name}: to the batch shell SIGTERM means that only KillWait is left: take USR1"
    return (
        f"{name}: nobody can tell it from a preemption's SIGTERM, so the ranks get {stops.after_termination_s:.0f} s "
        "and no more: take USR1"
    )


def _instead_of_sigterm(signal: UserSignal, times: SlurmTimes) -> str | None:
    if not times.user_signal_first:
        return None
    whom = "the batch shell alone" if signal.batch_shell else "the steps"
    return (
        f"this cluster announces a preemption by {signal.name} to {whom} (send_user_signal), and no SIGTERM comes "
        f"before GraceTime ({times.grace_time_s:.0f} s) is over: at every warning Slurm is asked which it is"
    )
