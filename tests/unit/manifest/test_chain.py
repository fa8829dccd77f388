from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    DecisionCarriedOut,
    Line,
    Record,
    RunCreated,
    RunFinished,
    RunId,
    SaveFailed,
    SaveReason,
    StopAsked,
    TrainingFinished,
    checkpoint_id,
)
from tests.unit.manifest.records_of_every_kind import law, tellings


def told(*records: Record) -> Chain:
    lines: list[Record] = [RunCreated(RunId("r1"), "night shift"), *records]
    return Chain.of([Line(seq, 1000.0 + seq, record) for seq, record in enumerate(lines, 1)])


def started(attempt: int) -> AttemptStarted:
    return AttemptStarted(attempt, "batch", ("train",), "host", "100", attempt - 1)


def saved(step: int, attempt: int) -> CheckpointCommitted:
    return CheckpointCommitted(checkpoint_id(step, attempt), step, attempt, SaveReason.PERIODIC, 1, (), 1.0)


def resumed(attempt: int, step: int) -> AttemptResumed:
    return AttemptResumed(attempt, checkpoint_id(step, 1) if step else None, step, 1)


def ended(attempt: int, cause: Cause = Cause.CRASHED, step: int | None = None) -> AttemptEnded:
    return AttemptEnded(attempt, cause, "", (), "requeue", "", 1, step)


def loadable(chain: Chain) -> list[tuple[int, int]]:
    return [(checkpoint.committed.step, checkpoint.committed.attempt) for checkpoint in chain.loadable()]


def test_a_run_that_was_only_created_has_nothing() -> None:
    chain = told()
    assert (chain.run_id, chain.name, chain.created_s) == ("r1", "night shift", 1001.0)
    assert chain.newest_attempt is None
    assert chain.attempts == ()
    assert loadable(chain) == []
    assert chain.next_step == 0
    assert not chain.ever_had_checkpoint
    assert not chain.finished
    assert chain.attempts_without_progress == 0


def test_an_attempt_holds_all_that_was_told_of_it_and_nothing_of_others() -> None:
    failed = SaveFailed(1, 20, "disk full")
    stop = StopAsked(1, "preempted", "SIGTERM")
    done = DecisionCarriedOut(1, "scontrol requeue 100")
    chain = told(
        started(1), resumed(1, 0), saved(10, 1), failed, stop, ended(1, step=25), done, started(2), resumed(2, 10)
    )
    first, second = chain.attempts
    assert (first.number, first.started, first.started_s) == (1, started(1), 1002.0)
    assert (first.resumed, first.stop_asked, first.carried_out) == (resumed(1, 0), stop, done)
    assert (first.ended, first.ended_s) == (ended(1, step=25), 1007.0)
    assert (first.checkpoints, first.saves_failed) == ((saved(10, 1),), (failed,))
    assert (second.resumed, second.ended, second.checkpoints) == (resumed(2, 10), None, ())
    assert chain.newest_attempt == second
    assert chain.attempt(1) == first
    assert chain.attempt(3) is None


def test_the_newest_step_is_loaded_first_and_of_one_step_the_newest_attempt() -> None:
    chain = told(started(1), saved(10, 1), saved(20, 1), started(2), saved(20, 2), saved(15, 2))
    assert loadable(chain) == [(20, 2), (20, 1), (15, 2), (10, 1)]
    assert chain.next_step == 20


def test_damaged_and_forgotten_checkpoints_are_not_loadable_and_still_remembered() -> None:
    chain = told(
        started(1),
        *(saved(step, 1) for step in (10, 20, 30)),
        CheckpointDamaged(checkpoint_id(30, 1), 2, "part 0 is missing"),
        CheckpointForgotten(checkpoint_id(10, 1), "retention"),
    )
    assert loadable(chain) == [(20, 1)]
    states = {checkpoint.committed.step: (checkpoint.state, checkpoint.why) for checkpoint in chain.checkpoints}
    assert states == {
        10: (CheckpointState.FORGOTTEN, "retention"),
        20: (CheckpointState.LIVE, None),
        30: (CheckpointState.DAMAGED, "part 0 is missing"),
    }
    assert chain.ever_had_checkpoint


def test_a_run_without_a_loadable_checkpoint_still_knows_that_it_had_one() -> None:
    chain = told(started(1), saved(10, 1), CheckpointDamaged(checkpoint_id(10, 1), 1, ""))
    assert chain.ever_had_checkpoint
    assert chain.next_step == 0


def test_forgotten_is_for_good_even_if_found_damaged_later() -> None:
    gone = checkpoint_id(10, 1)
    chain = told(
        started(1), saved(10, 1), CheckpointForgotten(gone, "retention"), CheckpointDamaged(gone, 1, "no file")
    )
    assert chain.checkpoints[0].state is CheckpointState.FORGOTTEN


@pytest.mark.parametrize("record", [TrainingFinished(1, 50), RunFinished(1)], ids=lambda r: type(r).__name__)
def test_a_run_is_finished_by_the_word_of_the_training_or_of_the_supervisor(record: Record) -> None:
    assert told(started(1), record).finished


@pytest.mark.parametrize(
    ("records", "stuck"),
    [
        ([started(1)], 0),  # still running
        ([started(1), ended(1)], 1),
        ([started(1), saved(10, 1), ended(1)], 0),
        ([started(1), saved(10, 1), ended(1), started(2), ended(2)], 1),
        ([started(1), saved(10, 1), ended(1), started(2), ended(2), started(3)], 1),
        # the same step once more is no progress
        ([started(1), saved(10, 1), ended(1), started(2), saved(10, 2), ended(2)], 1),
        ([started(1), saved(10, 1), ended(1), started(2), saved(11, 2), ended(2)], 0),
        # an attempt whose end nobody told is over when the next one starts
        ([started(1), started(2), started(3)], 2),
        # a running attempt that has gained something clears the count
        ([started(1), ended(1), started(2), saved(10, 2)], 0),
        # damaged afterwards: the step was gained, and gaining it again is no progress
        (
            [
                *(started(1), saved(10, 1), ended(1), CheckpointDamaged(checkpoint_id(10, 1), 2, "")),
                *(started(2), saved(10, 2), ended(2)),
            ],
            1,
        ),
        # what an attempt brought from outside is where it starts, not what it gained
        ([started(1), resumed(1, 100), saved(50, 1), ended(1)], 1),
        ([started(1), resumed(1, 100), saved(101, 1), ended(1)], 0),
        # others' progress inside an attempt's time doesn't count for it
        ([started(1), ended(1), started(2), saved(10, 1), ended(2)], 1),
    ],
)
def test_attempts_count_as_stuck_since_a_step_was_gained_last(records: list[Record], stuck: int) -> None:
    assert told(*records).attempts_without_progress == stuck


def test_stuck_attempts_are_counted_by_cause() -> None:
    chain = told(
        *(started(1), ended(1, Cause.CRASHED)),
        *(started(2), saved(10, 2), ended(2, Cause.CRASHED)),
        *(started(3), ended(3, Cause.PREEMPTED), started(4), ended(4, Cause.CRASHED), started(5), started(6)),
    )
    assert chain.attempts_without_progress == 3
    assert chain.count_since_progress(Cause.CRASHED) == 1
    assert chain.count_since_progress(Cause.PREEMPTED) == 1
    assert chain.count_since_progress(Cause.TIME_LIMIT) == 0


@pytest.mark.parametrize(
    ("records", "lost"),
    [
        ([started(1), ended(1, step=25), started(2), resumed(2, 20)], 5),
        ([started(1), ended(1, step=25), started(2), resumed(2, 25)], 0),
        ([started(1), ended(1, step=25), started(2), resumed(2, 0)], 25),
        ([started(1), ended(1, step=25)], None),  # nobody has resumed yet
        ([started(1), ended(1), started(2), resumed(2, 20)], None),  # nobody knows how far it got
        ([started(1), started(2), resumed(2, 20)], None),
        ([started(1), ended(1, step=25), started(2), ended(2), started(3), resumed(3, 20)], 5),
        ([started(1), ended(1, step=25), started(2), resumed(2, 30)], 0),
        ([], None),
    ],
)
def test_steps_lost_are_those_done_again(records: list[Record], lost: int | None) -> None:
    assert told(*records).steps_lost(1) == lost


def test_the_first_word_about_an_end_counts() -> None:
    chain = told(started(1), ended(1, Cause.PREEMPTED), ended(1, Cause.UNKNOWN))
    assert chain.attempts[0].ended == ended(1, Cause.PREEMPTED)
    assert chain.attempts[0].ended_s == 1003.0


def test_what_is_told_of_an_attempt_that_never_started_is_no_attempt() -> None:
    chain = told(ended(7), resumed(7, 5), saved(10, 7))
    assert chain.attempts == ()
    assert chain.next_step == 10


def test_a_chain_begins_with_the_line_that_creates_the_run() -> None:
    with pytest.raises(ValueError, match="begins with"):
        Chain.of([])
    with pytest.raises(ValueError, match="begins with"):
        Chain.of([Line(1, 0.0, started(1))])


@law
@given(tellings())
def test_what_is_loadable_is_committed_live_and_sorted(lines: list[Line]) -> None:
    chain = Chain.of(lines)
    committed = {line.record.checkpoint for line in lines if isinstance(line.record, CheckpointCommitted)}
    forgotten = {line.record.checkpoint for line in lines if isinstance(line.record, CheckpointForgotten)}
    order = loadable(chain)
    assert order == sorted(set(order), reverse=True)
    assert {checkpoint_id(step, attempt) for step, attempt in order} <= committed
    assert chain.next_step == max([0, *(step for step, _ in order)])
    assert {c.committed.checkpoint for c in chain.checkpoints} == committed
    for checkpoint in chain.loadable():
        if checkpoint.committed.checkpoint in forgotten:  # then it was committed anew after that
            last_fact = [
                line.record
                for line in lines
                if isinstance(line.record, (CheckpointCommitted, CheckpointForgotten))
                and line.record.checkpoint == checkpoint.committed.checkpoint
            ][-1]
            assert isinstance(last_fact, CheckpointCommitted)


@law
@given(tellings())
def test_counts_never_exceed_the_attempts_that_are_over(lines: list[Line]) -> None:
    chain = Chain.of(lines)
    over = [a for a in chain.attempts if a.ended is not None or a is not chain.newest_attempt]
    assert 0 <= chain.attempts_without_progress <= len(over)
    assert sum(chain.count_since_progress(cause) for cause in Cause) <= chain.attempts_without_progress
    numbers = [attempt.number for attempt in chain.attempts]
    assert numbers == sorted(set(numbers))


@law
@given(tellings(), st.integers(0, 50), st.integers(1, 7))
def test_a_further_checkpoint_clears_the_count_and_an_older_one_does_not(
    lines: list[Line], step: int, attempt: int
) -> None:
    before = Chain.of(lines)
    newest = before.newest_attempt
    if newest is None:
        return
    reached = [r.step for r in (line.record for line in lines) if isinstance(r, (CheckpointCommitted, AttemptResumed))]
    further = max([0, *reached]) + 1
    cleared = Chain.of([*lines, Line(len(lines) + 1, 5000.0, saved(further, newest.number))])
    assert cleared.attempts_without_progress == 0
    again = Chain.of([*lines, Line(len(lines) + 1, 5000.0, saved(min(step, further - 1), attempt))])
    assert again.attempts_without_progress == before.attempts_without_progress


@law
@given(tellings(), st.data())
def test_a_line_told_twice_in_a_row_changes_nothing(lines: list[Line], data: st.DataObject) -> None:
    """A writer that couldn't learn whether it had written writes again."""
    if len(lines) < 2:
        return
    at = data.draw(st.integers(1, len(lines) - 1))
    assert Chain.of([*lines[: at + 1], lines[at], *lines[at + 1 :]]) == Chain.of(lines)


@law
@given(tellings())
def test_a_run_once_finished_stays_finished(lines: list[Line]) -> None:
    finished = [Chain.of(lines[:length]).finished for length in range(1, len(lines) + 1)]
    assert finished == sorted(finished)


@law
@given(tellings())
def test_steps_lost_are_never_negative(lines: list[Line]) -> None:
    chain = Chain.of(lines)
    assert all((chain.steps_lost(attempt.number) or 0) >= 0 for attempt in chain.attempts)
