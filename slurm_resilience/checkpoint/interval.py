"""How long to go between two saves. Pure: costs, failures and times come in, an interval with its reason comes out.

Too often costs what saving costs; too rarely costs what is computed again after a failure. Where both together are
least is known for failures that come at random: Young's first order (CACM 17(9), 1974), and Daly's higher order
(Future Generation Computer Systems 22(3), 2006, equation 37), which stays right where failures are frequent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DAY_S = 86_400.0
NODE_MTBF_S = 50 * DAY_S
"""How long one node goes between two unannounced ends, where nobody knows better.

Measured for hardware on large GPU clusters: 154 and 427 days (Meta's RSC-1 and RSC-2, 6.5 and 2.34 failures in a
thousand node-days: arXiv 2410.21680), 264 days (Llama 3, 419 unexpected interruptions in 54 days on 2048 nodes: arXiv
2407.21783). Crashes of the training itself, out of memory and hangs come on top, so we expect the worse.
"""
PRIOR_FAILURES = 1.0
"""How much the expectation weighs against what the run has seen: as much as one failure."""
LEAST_S = 60.0
MOST_S = 3600.0


@dataclass(frozen=True, slots=True)
class Interval:
    seconds: float
    """From the end of one save to the beginning of the next. More than zero, and finite."""
    why: str


@dataclass(frozen=True, slots=True)
class NextSave:
    due_s: float
    """On the clock that the times given were read from."""
    why: str


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Young's optimum, sqrt(2 C M): good where a save costs far less than the time between failures."""
    return math.sqrt(2 * cost_s) * math.sqrt(mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's optimum: sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C, and M from C = 2M on.

    Within 2 % of the least possible waste for any C < 2M. At C = 2M, where hardly anything is computed any more, it
    jumps by an eighth.
    """
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = cost_s / mtbf_s / 2
    # The same with C put under the root's sign, so that nothing is lost where C is tiny and M huge.
    return young_s(cost_s, mtbf_s) * (1 - 2 * math.sqrt(ratio) / 3 + ratio / 9)


def expected_overhead(interval_s: float, *, cost_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Time spent beyond the useful time, as a share of it: saving, computing again, starting again.

    Daly's complete cost function for failures that come at random, during saves and restarts too.
    """
    return mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((interval_s + cost_s) / mtbf_s) / interval_s - 1


def mean_time_between_failures_s(
    *, nodes: int, failures: int, observed_s: float, node_mtbf_s: float = NODE_MTBF_S
) -> float:
    """What to expect on `nodes` nodes, after a run that had `failures` unannounced ends in `observed_s` seconds.

    The mean of a Gamma posterior: its prior is worth PRIOR_FAILURES failures in the time in which `node_mtbf_s` would
    have brought them. An end that is announced, and saved for, costs nothing and doesn't count.
    """
    if nodes < 1 or failures < 0 or not 0 <= observed_s < math.inf or not 0 < node_mtbf_s < math.inf:
        raise ValueError(
            f"{failures} failures in {observed_s} s on {nodes} nodes, each with one in {node_mtbf_s} s: impossible"
        )
    prior_s = PRIOR_FAILURES * node_mtbf_s / nodes
    return (prior_s + observed_s) / (PRIOR_FAILURES + failures)


def best_interval(cost_s: float | None, mtbf_s: float, *, least_s: float = LEAST_S, most_s: float = MOST_S) -> Interval:
    """Daly's optimum within what the user allows. `cost_s`: what a save costs the training, by which it comes later.

    None: not measured yet. Then the first save comes as early as is allowed, since only a save can be measured.
    """
    if not 0 < least_s <= most_s < math.inf:
        raise ValueError(f"saving at least every {most_s} s and at most every {least_s} s can't be meant")
    if cost_s is None:
        return Interval(least_s, "what a save costs isn't known yet: the first one comes early, to be measured")
    if not 0 <= cost_s < math.inf or not mtbf_s > 0:
        raise ValueError(f"a save that costs {cost_s} s and a failure every {mtbf_s} s: impossible")
    best_s = daly_s(cost_s, mtbf_s) if cost_s > 0 else 0.0  # never 0 times infinity
    reason = f"a save costs the training {cost_s:.2g} s and a failure is expected every {_time_text(mtbf_s)}"
    if best_s < least_s:
        return Interval(least_s, f"{reason}: best would be every {_time_text(best_s)}, more often than is allowed")
    if best_s > most_s:
        return Interval(most_s, f"{reason}: best would be every {_time_text(best_s)}, less often than is allowed")
    return Interval(best_s, f"{reason}: every {_time_text(best_s)} loses least (Daly 2006)")


def next_save(
    last_s: float, interval: Interval, *, end_s: float = math.inf, saving_s: float = 0.0, margin_s: float = 0.0
) -> NextSave:
    """When to save after the last save, or the start, at `last_s`. Never later than the interval says.

    A safety net below the time limit at `end_s`, for a stop that nobody announces (no --signal, a lead too short): if
    the interval would let the time limit come first, a save is due at the last moment from which one of `saving_s`
    seconds still becomes durable `margin_s` before the end. Left out where it would gain less than a quarter of the
    interval: then the last save is fresh enough.
    """
    due_s = last_s + interval.seconds
    last_moment_s = end_s - margin_s - saving_s
    if last_moment_s < due_s and last_moment_s - last_s > interval.seconds / 4:
        left = f"{_time_text(saving_s)} to save and {_time_text(margin_s)} to spare"
        return NextSave(last_moment_s, f"the last moment before the time limit, with {left}")
    return NextSave(due_s, interval.why)


def _time_text(seconds: float) -> str:
    """Two digits of the largest unit that fits."""
    for unit, unit_s in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.3g} {unit}"
    return f"{seconds:.3g} s"
