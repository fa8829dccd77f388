from __future__ import annotations

import dataclasses

from benchmarks.event_log import Event
from benchmarks.survival.outcome import Outcome, outcome_of, row_of


def told(*lines: tuple[str, int]) -> list[Event]:
    return [
        Event(what, float(number), {"step": step, "weights": f"hash of {step}"})
        for number, (what, step) in enumerate(lines)
    ]


def outcome(*lines: tuple[str, int], state: str = "COMPLETED", exit_code: str = "0:0", restarts: int = 0) -> Outcome:
    return outcome_of(told(*lines), saved_step=None, state=state, exit_code=exit_code, restarts=restarts)


PERIODIC = (("began", 0), ("stepped", 29), ("stepped", 30), ("saved", 30), ("stepped", 31))


def test_a_life_without_its_last_step_on_disk_has_lost_what_came_after_the_last_save() -> None:
    ended = outcome(*PERIODIC, state="FAILED", exit_code="1:0")
    assert (ended.last_step, ended.saved_step, ended.saved_current, ended.lost_steps) == (31, 30, False, 1)


def test_steps_of_a_later_life_are_not_taken_for_those_of_the_first() -> None:
    ended = outcome(*PERIODIC, ("began", 30), ("stepped", 31), ("stepped", 90), ("finished", 90), restarts=1)
    assert (ended.last_step, ended.resumed_step, ended.lost_steps) == (31, 30, 1)
    assert ended.weights == "hash of 90"


def test_steps_lost_in_later_lives_count_too() -> None:
    ended = outcome(*PERIODIC, ("began", 31), ("stepped", 50), ("began", 42), ("stepped", 90), restarts=2)
    assert (ended.last_step, ended.resumed_step, ended.lost_steps) == (31, 31, 8)


def test_a_life_that_ended_before_its_first_step_has_lost_none() -> None:
    assert outcome(*PERIODIC, ("saved", 31), ("began", 31), ("began", 31), ("stepped", 90)).lost_steps == 0


def test_a_stale_checkpoint_written_over_a_newer_one_counts_as_it_lies() -> None:
    ended = outcome(*PERIODIC, ("saved", 31), ("saved", 12))
    assert (ended.saved_step, ended.saved_current, ended.lost_steps) == (12, False, 19)


def test_who_knows_better_than_the_program_what_is_saved_is_believed() -> None:
    ended = outcome_of(told(*PERIODIC), saved_step=31, state="COMPLETED", exit_code="0:0", restarts=0)
    assert ended.saved_current


def test_a_training_that_never_saved_has_lost_all_it_did() -> None:
    assert outcome(("began", 0), ("stepped", 7), state="FAILED").lost_steps == 7


def test_a_job_that_died_before_its_first_step_has_no_checkpoint_of_it() -> None:
    assert not outcome(state="FAILED", exit_code="138:0").saved_current


def test_a_job_that_completed_without_finishing_is_called_so() -> None:
    assert "COMPLETED, unfinished, 0" in row_of("a tool", "preemption", "cgroup", [outcome(*PERIODIC)])


def test_a_checkpoint_that_nobody_goes_on_from_is_not_lost_and_not_resumed() -> None:
    row = row_of("a tool", "preemption", "cgroup", [outcome(*PERIODIC, ("saved", 31))])
    assert row[3:] == ["yes", "COMPLETED, unfinished, 0", "no", "(0, nothing restarts it)", "–"]


def test_runs_that_went_alike_are_told_once_and_their_numbers_apart() -> None:
    whole = outcome(*PERIODIC, ("saved", 31), ("began", 31), ("stepped", 90), ("finished", 90), restarts=1)
    runs = [
        dataclasses.replace(whole, identical=True),
        dataclasses.replace(whole, identical=False, resumed_step=30, lost_steps=1),
    ]
    row = row_of("a tool", "preemption", "cgroup", runs)
    assert row == [
        "a tool",
        "preemption",
        "cgroup (2)",
        "yes",
        "COMPLETED, 1",
        "31 of 31 / 30 of 31",
        "0 1",
        "yes / no",
    ]


def test_the_code_and_the_signal_of_a_failed_job_are_told() -> None:
    assert "FAILED 0 (signal 9), 0" in row_of("a", "b", "c", [outcome(*PERIODIC, state="FAILED", exit_code="0:9")])
