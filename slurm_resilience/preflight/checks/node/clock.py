"""Check `time-sync`: somebody keeps this node's clock right. How far apart the nodes are, the conductor measures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, skipped, warn

_UNSYNCHRONISED = 0x40  # STA_UNSYNC
_ANSWER_S = 2.0
_ROOM_BYTES = 512
"""More than struct timex has on any architecture."""

Runner = Callable[..., Completed]


@dataclass(frozen=True, slots=True)
class KernelClock:
    status: int
    error_s: float
    """As far as it may be off, by the kernel's own estimate."""


def kernel_clock() -> KernelClock | None:
    """By adjtimex(2), which everybody may ask. None: it doesn't answer."""
    buffer = (ctypes.c_long * (_ROOM_BYTES // ctypes.sizeof(ctypes.c_long)))()  # modes = 0: only asking
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
            return None
    except (OSError, AttributeError):
        return None
    # int modes; long offset, freq, maxerror, esterror; int status: each on its own word but for the first's padding.
    return KernelClock(ctypes.c_int(buffer[5] & 0xFFFFFFFF).value, buffer[3] / 1e6)


def time_sync(
    _context: Context,
    tell: Tell,
    ask: Callable[[], KernelClock | None] = kernel_clock,
    runner: Runner = run,
) -> Iterable[Finding]:
    tell("asking the kernel for its clock")
    clock = ask()
    unset = clock is None or bool(clock.status & _UNSYNCHRONISED)
    said = _daemons_word(tell, runner) if unset else None
    if clock is None and said is None:
        return [skipped("neither the kernel nor a daemon says how the clock is kept")]
    facts = {"kernel_synchronised": None if clock is None else not unset, "daemon": said[1] if said else None}
    # In virtual machines and containers the host may keep it without telling the kernel: a daemon's word is better.
    if said[0] if said is not None else not unset:
        return summed_up([], f"kept right ({said[1] if said else 'kernel'})", facts)
    text = (
        f"nobody keeps the clock right ({said[1] if said else 'the kernel says so'}): it drifts from the other nodes'"
    )
    remedy = "tell the admins: chronyd or systemd-timesyncd should run; see the check `clock` for how far it is off"
    return summed_up([warn(Problem.NODE, text, remedy)], "", facts)


def _daemons_word(tell: Tell, runner: Runner) -> tuple[bool, str] | None:
    """Whether it is synchronised, and who says so."""
    for argv, yes, no in (
        (["chronyc", "-n", "tracking"], ("Leap status     : Normal", "Leap status"), "Not synchronised"),
        (["timedatectl", "status"], ("synchronized: yes",), "synchronized: no"),
    ):
        tell(f"running {argv[0]}")
        try:
            done = runner(argv, timeout_s=_ANSWER_S)
        except CommandError:
            continue
        if done.code != 0:
            continue
        if no in done.out:
            return False, argv[0]
        if any(each in done.out for each in yes):
            return True, argv[0]
    return None
