"""Who has fallen silent: a table, and what a silence can never mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.supervisor.pulse import SILENT_AFTER_S, Beat, Pulse, silent_after_s


def beat(version: int, *, running: bool = True) -> Beat:
    return Beat((1, version), running)


def test_who_says_nothing_while_another_one_is_heard_is_silent() -> None:
    pulse = Pulse(60.0)
    for second in range(0, 61, 10):
        silent = pulse.silent({0: beat(second), 1: beat(0)}, float(second))
        assert silent == (() if second < 60 else (1,))


def test_where_nobody_is_heard_nobody_is_silent() -> None:
    pulse = Pulse(60.0)
    for second in range(0, 600, 10):
        assert pulse.silent({0: beat(0), 1: beat(0)}, float(second)) == ()


def test_the_only_agent_is_never_silent() -> None:
    pulse = Pulse(60.0)
    assert [pulse.silent({0: beat(0)}, second) for second in (0.0, 100.0, 1000.0)] == [()] * 3


def test_who_has_said_how_it_ended_is_not_silent() -> None:
    pulse = Pulse(60.0)
    for second in range(0, 200, 10):
        assert pulse.silent({0: beat(second), 1: beat(0, running=False)}, float(second)) == ()


def test_who_is_heard_again_is_silent_no_more() -> None:
    pulse = Pulse(60.0)
    silent = [pulse.silent({0: beat(second), 1: beat(0)}, float(second)) for second in range(0, 61, 10)]
    assert silent[-1] == (1,)
    assert pulse.silent({0: beat(61), 1: beat(7)}, 61.0) == ()


def test_a_suspended_job_that_wakes_up_one_after_the_other_has_nobody_silent() -> None:
    pulse = Pulse(60.0)
    pulse.silent({0: beat(0), 1: beat(0)}, 0.0)
    assert pulse.silent({0: beat(1), 1: beat(0)}, 3600.0) == ()
    assert pulse.silent({0: beat(1), 1: beat(1)}, 3605.0) == ()


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.sets(st.integers(0, 3))), max_size=40))
def test_who_beats_within_the_time_is_never_silent(looks: list[tuple[float, set[int]]]) -> None:
    pulse, now_s, versions, last_s = Pulse(60.0), 0.0, dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0.0)
    pulse.silent({agent: beat(0) for agent in versions}, 0.0)
    for wait_s, heard in looks:
        now_s += wait_s
        for agent in heard:
            versions[agent] += 1
            last_s[agent] = now_s
        silent = pulse.silent({agent: beat(version) for agent, version in versions.items()}, now_s)
        assert all(now_s - last_s[agent] >= 60.0 for agent in silent)


def test_a_silence_of_0_is_never_noticed() -> None:
    pulse = Pulse(0.0)
    pulse.silent({0: beat(0), 1: beat(0)}, 0.0)
    assert pulse.silent({0: beat(1), 1: beat(0)}, 1e6) == ()


@pytest.mark.parametrize(("text", "seconds"), [("", SILENT_AFTER_S), ("90", 90.0), ("0", 0.0), ("6.5", 6.5)])
def test_the_time_is_the_environments(text: str, seconds: float) -> None:
    assert silent_after_s({"SLURM_RESILIENCE_SILENT_AFTER": text}) == seconds


@pytest.mark.parametrize("text", ["soon", "-3", "5", "inf", "nan", "1m"])
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match="SLURM_RESILIENCE_SILENT_AFTER"):
        silent_after_s({"SLURM_RESILIENCE_SILENT_AFTER": text})
