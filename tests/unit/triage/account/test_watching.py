"""Which trouble is told while a run runs, and when it is told again."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_resilience.triage.account.watching import Alarm, Kind, Look, Watched, watch
from tests.unit.triage.account.scenes import ADVICE, CUDA, PEER, TIMED_OUT, said


def alarms(looks: Iterable[Look], watched: Watched | None = None) -> list[Alarm]:
    told: list[Alarm] = []
    state = watched or Watched()
    for look in looks:
        state, new = watch(state, look)
        told += new
    return told


def writing(until: int, every: int = 10) -> list[Look]:
    return [Look(float(at), {"job.out": at}) for at in range(0, until, every)]


def test_an_output_that_grows_is_no_trouble() -> None:
    assert alarms(writing(10_000)) == []


def test_five_minutes_without_output_are_told_once() -> None:
    silent = [Look(float(at), {"job.out": 50}) for at in range(50, 1000, 10)]
    told = alarms([*writing(50), *silent])
    assert [(alarm.kind, alarm.time_s) for alarm in told] == [(Kind.QUIET, 350.0)]


def test_a_log_that_is_written_often_is_missed_sooner() -> None:
    before = [Look(float(at), {"job.out": at}) for at in range(200)]
    silent = [Look(float(at), {"job.out": 199}) for at in range(200, 400)]
    assert [alarm.time_s for alarm in alarms([*before, *silent])] == [259.0]


def test_the_users_word_counts_more_than_the_usual_gap() -> None:
    silent = [Look(float(at), {"job.out": 1}) for at in range(0, 100, 5)]
    assert [alarm.time_s for alarm in alarms(silent, Watched(quiet_after_s=30))] == [30.0]


def test_silence_that_ends_and_comes_again_is_told_again() -> None:
    looks = [Look(float(at), {"job.out": at // 1000}) for at in range(0, 3000, 10)]
    assert [alarm.kind for alarm in alarms(looks, Watched(quiet_after_s=400))] == [Kind.QUIET] * 3


def test_steps_count_as_life_and_who_is_behind_is_named() -> None:
    steps = [Look(float(at), {"job.out": 1}, {0: at, 1: at}) for at in range(0, 400, 10)]
    assert alarms(steps) == []
    stuck = [Look(float(at), {"job.out": 1}, {0: 391, 1: 390}) for at in range(400, 900, 10)]
    told = alarms([*steps, *stuck])
    assert len(told) == 1
    assert "rank 1" in told[0].sentence


def test_steps_that_take_twice_as_long_are_told_once() -> None:
    fast = [Look(float(at), {}, {0: at}) for at in range(0, 200, 10)]
    slow = [Look(200.0 + 30 * n, {}, {0: 190 + 10 * n}) for n in range(1, 12)]
    told = alarms([*fast, *slow])
    assert [alarm.kind for alarm in told] == [Kind.SLOW]
    assert "3 s each, usually 1 s" in told[0].sentence


def test_a_training_that_starts_again_at_an_earlier_step_is_not_slow() -> None:
    first = [Look(float(at), {}, {0: at}) for at in range(0, 200, 10)]
    again = [Look(200.0 + at, {}, {0: 100 + at}) for at in range(0, 200, 10)]
    assert alarms([*first, *again]) == []


def test_a_root_and_a_wait_are_told_once_and_what_follows_is_not() -> None:
    events = (said(CUDA, 0), said(TIMED_OUT, 1), said(PEER, 2), said(ADVICE, 3), said(None, 1))
    told = alarms([Look(0.0, events=events), Look(10.0, events=events)])
    assert [alarm.kind for alarm in told] == [Kind.TROUBLE] * 3
    assert told[0].place == "rank-0.log:10"


def test_each_save_that_fails_is_told_once() -> None:
    told = alarms([Look(0.0, saves_failed=("no space",)), Look(10.0, saves_failed=("no space", "no quota"))])
    assert [alarm.sentence for alarm in told] == ["a save failed: no space", "a save failed: no quota"]


def test_an_agent_that_is_silent_is_told_until_it_is_heard_and_silent_again() -> None:
    looks = [Look(float(at), silent=("n2",) if at in (10, 20, 40) else ()) for at in range(0, 60, 10)]
    assert [alarm.time_s for alarm in alarms(looks)] == [10.0, 40.0]
