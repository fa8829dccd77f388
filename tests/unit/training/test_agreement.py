"""All ranks act alike, whatever their clocks say and however long their steps take."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.training.agreement import Agreement, Answer, RanksDisagree, Statement, Want, answer_of
from slurm_resilience.training.schedule import ANSWER_WITHIN_S, ASK_EVERY_S, MOST_BOUNDARIES, Schedule


class HandClock:
    """A clock that only moves when its rank says that a step took so long."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class Meeting:
    """Reductions as a group does them: the n-th row of one rank meets the n-th rows of the others."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.condition = threading.Condition()
        self.rows: list[list[list[int]]] = []

    def put(self, number: int, row: list[int]) -> None:
        with self.condition:
            while len(self.rows) <= number:
                self.rows.append([])
            self.rows[number].append(row)
            self.condition.notify_all()

    def get(self, number: int) -> list[int]:
        with self.condition:
            met = self.condition.wait_for(lambda: len(self.rows[number]) == self.world_size, timeout=100)
            assert met, "a rank waits for an answer that the others were never asked for"
            return [max(column) for column in zip(*self.rows[number], strict=True)]


class Seat:
    """One rank's place in a meeting."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.number = -1

    def start_max(self, row: Sequence[int]) -> Answering:
        self.number += 1
        self.meeting.put(self.number, list(row))
        return Answering(self.meeting, self.number)


class Answering:
    def __init__(self, meeting: Meeting, number: int) -> None:
        self.meeting = meeting
        self.number = number

    def wait(self) -> list[int]:
        return self.meeting.get(self.number)


def in_threads(*jobs: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001  # carried over to the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


step_times = st.lists(st.sampled_from([0.0001, 0.003, 0.02, 0.3, 0.7, 4.0]), min_size=1, max_size=6)
ranks_with_stops = st.lists(
    st.tuples(step_times, st.one_of(st.none(), st.floats(0, 20)), st.integers(0, 400)), min_size=2, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(ranks_with_stops)
def test_all_ranks_get_the_same_answers_at_the_same_steps_and_stop_after_the_same_one(
    ranks: list[tuple[list[float], float | None, int]],
) -> None:
    meeting = Meeting(len(ranks))
    stories: list[list[tuple[int, Answer]]] = [[] for _ in ranks]

    def train(rank: int) -> None:
        times, asked_after_s, wanted_at = ranks[rank]
        clock = HandClock()
        agreement = Agreement(Seat(meeting), clock)
        for step in range(300):
            asked = asked_after_s is not None and clock.time_s >= asked_after_s
            want = Want.ASKED if step == wanted_at else Want.NOTHING
            statement = Statement(step, stop=2 * asked, seconds_left=30.0 + rank, want=want)
            statement = Statement(step, statement.stop, statement.seconds_left, want, boundary_s=agreement.boundary_s())
            answer = agreement.at_boundary(statement)
            if answer is not None:
                stories[rank].append((step, answer))
                if answer.stop:
                    return
            clock.sleep(times[step % len(times)])
        agreement.settle(Statement(300, leaving=True))

    in_threads(*(lambda rank=rank: train(rank) for rank in range(len(ranks))))
    assert all(story == stories[0] for story in stories)
    assert stories[0], "the first boundary asks at once"
    assert stories[0][0][0] == 0


@settings(max_examples=60, deadline=None)
@given(step_times, st.floats(0, 15))
def test_a_stop_is_heard_within_about_a_second_and_two_steps_as_long_as_steps_take_the_same_time(
    times: list[float], asked_after_s: float
) -> None:
    step_s = times[0]
    meeting = Meeting(1)
    clock = HandClock()
    agreement = Agreement(Seat(meeting), clock)
    step = 0
    while True:
        asked = clock.time_s >= asked_after_s
        answer = agreement.at_boundary(Statement(step, stop=int(asked), boundary_s=agreement.boundary_s()))
        if answer is not None and answer.stop:
            break
        clock.sleep(step_s)
        step += 1
    assert clock.time_s - asked_after_s <= ASK_EVERY_S + ANSWER_WITHIN_S + 2 * step_s + 1e-6


def test_long_steps_are_asked_about_at_every_boundary_and_waited_for() -> None:
    assert Schedule().after(7, 30.0) == Schedule(8, 8)
    assert Schedule().after(7, None) == Schedule(8, 8)


@given(st.integers(0, 10**9), st.floats(1e-7, 1e5))
def test_the_next_question_is_never_far_and_never_now(boundary: int, slowest_s: float) -> None:
    following = Schedule().after(boundary, slowest_s)
    assert 1 <= following.ask_at - boundary <= MOST_BOUNDARIES
    assert (following.ask_at - boundary) * slowest_s <= max(ASK_EVERY_S, slowest_s)
    assert 0 <= (following.read_at - following.ask_at) * slowest_s <= ANSWER_WITHIN_S + slowest_s


def test_ranks_at_different_steps_are_told_which() -> None:
    rows = [Statement(12).row(), Statement(15).row()]
    with pytest.raises(RanksDisagree, match="completed 15 steps and another 12"):
        answer_of([max(column) for column in zip(*rows, strict=True)])


def test_a_rank_that_leaves_while_others_go_on_is_told_as_that() -> None:
    rows = [Statement(12).row(), Statement(12, leaving=True).row()]
    with pytest.raises(RanksDisagree, match="left their training loop"):
        answer_of([max(column) for column in zip(*rows, strict=True)])


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1e6) | st.just(math.inf)), min_size=1, max_size=5))
def test_the_nearest_deadline_counts(said: list[tuple[int, float]]) -> None:
    rows = [Statement(1, stop=stop, seconds_left=left).row() for stop, left in said]
    answer = answer_of([max(column) for column in zip(*rows, strict=True)])
    nearest = min(left for _, left in said)
    assert answer.stop == max(stop for stop, _ in said)
    assert answer.seconds_left == nearest or nearest - 0.001 <= answer.seconds_left <= nearest
