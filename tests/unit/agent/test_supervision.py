"""The table and the laws of what the agent does about what it sees."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.agent.notice import (
    CommandEnded,
    EndMoved,
    NewerAttempt,
    Ordered,
    RankLost,
    RanksSeen,
    Signalled,
    StopFileTouched,
    Tick,
)
from slurm_resilience.agent.supervision import (
    FORWARD_PAUSE_S,
    RANK_LOST_S,
    WRITERS_S,
    Action,
    Forward,
    Forwarding,
    Kill,
    KillTree,
    Rules,
    ShowStop,
    State,
    next_look_s,
    observe,
    writers_time_s,
)
from slurm_resilience.launch.end_of_time import EndOfTime
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason
from tests.unit.agent.scene import TIMES, WALL_S, at, pages, play, rules

STEPPING, STOPPED, FINISHED = RankPhase.STEPPING, RankPhase.STOPPED, RankPhase.FINISHED


@pytest.mark.parametrize(
    ("event", "reason", "seconds"),
    [
        (Signalled("SIGTERM"), StopReason.TERMINATION, TIMES.after_termination_s),
        (Signalled("SIGHUP"), StopReason.TERMINATION, TIMES.after_termination_s),
        (Signalled("SIGUSR1"), StopReason.WARNING, TIMES.after_warning_s),
        (Signalled("SIGUSR2"), StopReason.WARNING, TIMES.after_warning_s),
        (Signalled("SIGINT"), StopReason.OPERATOR, TIMES.after_warning_s),
        (StopFileTouched(), StopReason.OPERATOR, TIMES.after_warning_s),
        (Ordered(StopReason.PEER_FAILED, "n3 is gone", None), StopReason.PEER_FAILED, TIMES.peer_failed_s),
        (Ordered(StopReason.FENCED, "attempt 4 runs", None), StopReason.FENCED, TIMES.peer_failed_s),
        (Ordered(StopReason.TIME_LIMIT, "soon", 33.0), StopReason.TIME_LIMIT, 33.0),
        (Ordered(StopReason.TERMINATION, "relayed", None), StopReason.TERMINATION, TIMES.after_termination_s),
    ],
)
def test_whoever_asks_there_is_one_request_with_its_own_deadline(event, reason, seconds):
    state, done = play(rules(), (3.0, event))
    assert state.stop is not None
    assert (state.stop.reason, state.stop.requested_s, state.stop.deadline_s) == (reason, 3.0, 3.0 + seconds)
    assert done == [(3.0, ShowStop(state.stop, fresh=True))]


def test_three_terms_within_a_moment_are_one_request():
    state, done = play(rules(), *((when, Signalled("SIGTERM")) for when in (1.0, 1.04, 1.08)))
    assert [action for _, action in done] == [ShowStop(state.stop, fresh=True)]
    assert state.stop.deadline_s == 1.0 + TIMES.after_termination_s


def test_a_term_after_a_warning_brings_the_deadline_nearer_and_keeps_the_reason():
    state, done = play(rules(), (0.0, Signalled("SIGUSR1")), (10.0, Signalled("SIGTERM")))
    assert state.stop.reason is StopReason.WARNING
    assert state.stop.deadline_s == 10.0 + TIMES.after_termination_s
    assert [action.fresh for _, action in done] == [True, False]


def test_a_warning_after_a_term_moves_nothing():
    state, done = play(rules(), (0.0, Signalled("SIGTERM")), (1.0, Signalled("SIGUSR1")))
    assert state.stop.deadline_s == TIMES.after_termination_s
    assert len(done) == 1


def test_the_end_of_the_time_is_a_request_as_soon_as_the_lead_begins_and_not_before():
    timed = rules(end_in_s=200, stop_before_end_s=60)
    assert play(timed, (139.9, Tick()))[0].stop is None
    state, _ = play(timed, (140.0, Tick()))
    assert (state.stop.reason, state.stop.deadline_s) == (StopReason.TIME_LIMIT, 200.0)


def test_a_warning_is_worth_no_more_than_the_time_that_is_left():
    state, _ = play(rules(end_in_s=50, stop_before_end_s=10), (10.0, Signalled("SIGUSR1")))
    assert state.stop.deadline_s == 50.0


def test_past_the_end_of_the_time_slurms_own_term_is_still_to_come():
    state, _ = play(rules(end_in_s=50), (70.0, Tick()))
    assert state.stop.deadline_s == 70.0 + TIMES.after_termination_s


def test_a_term_is_worth_its_kill_wait_even_past_the_end_of_the_time():
    state, _ = play(rules(end_in_s=50, stop_before_end_s=0), (49.0, Signalled("SIGTERM")))
    assert state.stop.deadline_s == 49.0 + TIMES.after_termination_s


def test_slurms_kill_is_counted_from_its_term_at_the_end_of_the_time_and_not_from_the_end():
    timed, term = rules(end_in_s=50, stop_before_end_s=0), Signalled("SIGTERM")
    late, _ = play(timed, (50.0, Tick()), (53.5, term))
    assert (late.stop.reason, late.stop.deadline_s) == (StopReason.TIME_LIMIT, 53.5 + TIMES.after_termination_s)
    twice, _ = play(timed, (50.0, Tick()), (53.5, term), (57.0, term))
    assert twice.stop.deadline_s == 53.5 + TIMES.after_termination_s


def test_a_term_before_the_end_of_the_time_gives_no_more_time():
    state, _ = play(rules(end_in_s=50, stop_before_end_s=40), (10.0, Tick()), (49.0, Signalled("SIGTERM")))
    assert state.stop.deadline_s == min(50.0, 49.0 + TIMES.after_termination_s)
    preempted, _ = play(
        rules(end_in_s=50, stop_before_end_s=40),
        (10.0, Tick()),
        (20.0, Signalled("SIGTERM")),
        (51.0, Signalled("SIGTERM")),
    )
    assert preempted.stop.deadline_s == min(50.0, 20.0 + TIMES.after_termination_s)


def moved(end_in_s: float, stop_before_end_s: float = 60) -> EndMoved:
    return EndMoved(EndOfTime(WALL_S + end_in_s, stop_before_end_s))


def test_a_raised_limit_moves_the_stop_with_it():
    timed = rules(end_in_s=200)
    story = [(100.0, moved(800)), (140.0, Tick()), (739.9, Tick())]
    assert play(timed, *story)[0].stop is None
    state, _ = play(timed, *story, (740.0, Tick()))
    assert (state.stop.reason, state.stop.deadline_s) == (StopReason.TIME_LIMIT, 800.0)


def test_a_lowered_limit_stops_in_time_and_one_in_the_past_at_once():
    assert play(rules(end_in_s=2000), (10.0, moved(100)), (39.9, Tick()))[0].stop is None
    assert play(rules(end_in_s=2000), (10.0, moved(100)), (40.0, Tick()))[0].stop.deadline_s == 100.0
    state, _ = play(rules(end_in_s=2000), (100.0, moved(50)))
    assert (state.stop.reason, state.stop.deadline_s) == (StopReason.TIME_LIMIT, 100.0 + TIMES.after_termination_s)


def test_the_lead_moves_with_the_limit():
    assert play(rules(end_in_s=60, stop_before_end_s=15), (0.0, moved(600, 60)), (500.0, Tick()))[0].stop is None
    assert play(rules(end_in_s=60, stop_before_end_s=15), (0.0, moved(600, 60)), (540.0, Tick()))[0].stop is not None


def test_a_limit_without_one_before_is_obeyed_too():
    assert play(rules(), (0.0, moved(100)), (40.0, Tick()))[0].stop is not None


def test_who_is_stopping_already_has_to_be_quicker_where_the_limit_is_lowered():
    state, _ = play(rules(end_in_s=2000), (0.0, Signalled("SIGUSR1")), (10.0, moved(50)))
    assert (state.stop.reason, state.stop.deadline_s) == (StopReason.WARNING, 50.0)


def test_a_raised_limit_gives_nobody_who_is_stopping_more_time():
    state, _ = play(rules(end_in_s=50), (0.0, Signalled("SIGUSR1")), (10.0, moved(5000)))
    assert state.stop.deadline_s == 50.0


def test_a_lowered_limit_takes_nothing_from_what_slurm_grants_after_its_term():
    state, _ = play(rules(end_in_s=2000), (0.0, Signalled("SIGTERM")), (10.0, moved(5)))
    assert state.stop.deadline_s == TIMES.after_termination_s


def test_over_time_that_slurm_allows_is_time_to_save_in():
    late = replace(rules(end_in_s=200), over_time_limit_s=120)
    state, _ = play(late, (140.0, Tick()))
    assert state.stop.deadline_s == 320.0


def test_a_ghost_is_asked_at_once_and_ended_soon():
    state, done = play(rules(), (3.0, NewerAttempt(4)))
    assert (state.newer, state.stop.reason, state.stop.deadline_s) == (4, StopReason.FENCED, 3.0 + TIMES.peer_failed_s)
    assert done == [(3.0, ShowStop(state.stop, fresh=True))]
    assert play(rules(), (3.0, NewerAttempt(4)), (11.0, Tick()))[0].kill is Kill.DEADLINE


def test_nothing_is_killed_before_the_deadline_and_everything_at_it():
    story = [(0.0, Signalled("SIGTERM")), (19.9, Tick())]
    assert play(rules(), *story)[0].kill is None
    state, done = play(rules(), *story, (20.0, Tick()), (21.0, Tick()))
    assert state.kill is Kill.DEADLINE
    assert sum(isinstance(action, KillTree) for _, action in done) == 1


def test_writers_outlive_ranks_without_peers_but_not_slurms_kill():
    gone = Ordered(StopReason.PEER_FAILED, "n3 is gone", None)
    unlimited, _ = play(rules(), (10.0, gone))
    assert writers_time_s(rules(), unlimited, at(18.0)) == WRITERS_S
    cancelled, _ = play(rules(), (10.0, gone), (12.0, Signalled("SIGTERM")), (14.0, Signalled("SIGTERM")))
    assert writers_time_s(rules(), cancelled, at(18.0)) == 12.0 + TIMES.after_termination_s - 18.0


def test_ranks_that_are_done_have_their_time_to_leave():
    story = [(0.0, Signalled("SIGTERM")), (2.0, RanksSeen(pages(STOPPED, STOPPED))), (6.9, Tick())]
    assert play(rules(), *story)[0].kill is None
    assert play(rules(), *story, (7.0, Tick()))[0].kill is Kill.LEAVING


def test_ranks_that_stopped_because_another_node_was_asked_have_their_time_to_leave_too():
    story = [(2.0, RanksSeen(pages(STOPPED, STOPPED))), (7.0, RanksSeen(pages(STOPPED, STOPPED)))]
    assert play(rules(), *story)[0].kill is Kill.LEAVING


def test_a_training_that_finished_unasked_may_go_on_as_a_script():
    story = [(2.0, RanksSeen(pages(FINISHED, FINISHED))), (900.0, Tick())]
    assert play(rules(), *story)[0].kill is None


def test_one_rank_that_stopped_does_not_make_the_others_leave():
    story = [(0.0, Signalled("SIGUSR1")), (1.0, RanksSeen(pages(STOPPED, STEPPING))), (99.0, Tick())]
    assert play(rules(), *story)[0].kill is None


def test_a_page_that_is_missing_is_a_rank_that_is_not_done():
    story = [(0.0, Signalled("SIGUSR1")), (1.0, RanksSeen(pages(STOPPED))), (99.0, Tick())]
    assert play(rules(ranks=2), *story)[0].kill is None


def test_a_launcher_that_overlooks_a_dead_rank_is_killed_with_the_rest():
    story = [(0.0, RankLost("rank 1 died")), (RANK_LOST_S - 1, RankLost("rank 1 died"))]
    assert play(rules(), *story)[0].kill is None
    assert play(rules(), *story, (RANK_LOST_S, RankLost("rank 1 died")))[0].kill is Kill.HUNG


def test_a_rank_whose_end_was_noticed_in_time_is_no_reason_to_kill():
    story = [(0.0, RankLost("rank 1 died")), (1.0, RankLost(None)), (RANK_LOST_S + 5, Tick())]
    assert play(rules(), *story)[0].kill is None


def test_the_chosen_signal_is_handed_on_once_whatever_comes():
    chosen = rules(forwarding=Forwarding.CHOSEN, forward_signal="SIGUSR1")
    story = [(0.0, Signalled("SIGTERM")), (0.1, Signalled("SIGUSR2")), (1.0, Tick()), (2.0, StopFileTouched())]
    _, done = play(chosen, *story, (9.0, Tick()))
    assert [(when, action) for when, action in done if isinstance(action, Forward)] == [(1.0, Forward("SIGUSR1"))]


def test_a_task_hears_every_signal_once_as_it_came():
    story = [(0.0, Signalled("SIGUSR1")), (1.0, Signalled("SIGUSR1")), (2.0, Signalled("SIGTERM")), (3.0, Tick())]
    _, done = play(rules(forwarding=Forwarding.AS_IT_CAME), *story)
    assert [action.signal for _, action in done if isinstance(action, Forward)] == ["SIGUSR1", "SIGTERM"]


def test_a_task_is_sent_term_when_it_was_asked_to_stop_without_a_signal():
    _, done = play(rules(forwarding=Forwarding.AS_IT_CAME), (0.0, StopFileTouched()), (1.0, Tick()))
    assert [action.signal for _, action in done if isinstance(action, Forward)] == ["SIGTERM"]


def test_a_signal_is_handed_on_after_a_pause_and_the_loop_is_awake_for_it():
    chosen = rules(forwarding=Forwarding.CHOSEN, forward_signal="SIGUSR1")
    state, done = play(chosen, (0.0, Signalled("SIGTERM")))
    assert not [action for _, action in done if isinstance(action, Forward)]
    assert next_look_s(chosen, state, at(0.0)) <= FORWARD_PAUSE_S


def test_a_command_that_ended_is_neither_asked_nor_killed():
    state, done = play(rules(), (0.0, CommandEnded(0, ())), (1.0, Signalled("SIGTERM")), (99.0, Tick()))
    assert (state.stop, state.kill, state.code, done) == (None, None, 0, [])


phases = st.sampled_from(RankPhase)
events = st.one_of(
    st.sampled_from(["SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP"]).map(Signalled),
    st.builds(Ordered, st.sampled_from(StopReason), st.just("because"), st.none() | st.floats(-5, 500)),
    st.just(StopFileTouched()),
    st.builds(moved, st.floats(0, 3000), st.floats(0, 600)),
    st.builds(NewerAttempt, st.integers(2, 5)),
    st.just(Tick()),
    st.lists(phases, max_size=3).map(lambda found: RanksSeen(pages(*found))),
    st.sampled_from([None, "rank 1 died"]).map(RankLost),
    st.builds(CommandEnded, st.integers(0, 255), st.just(())),
)
all_rules = st.builds(
    rules,
    ranks=st.integers(1, 3),
    forwarding=st.sampled_from(Forwarding),
    forward_signal=st.just("SIGUSR1"),
    end_in_s=st.none() | st.floats(0, 2000),
    stop_before_end_s=st.floats(0, 600),
)


@dataclass
class Life:
    states: list[State] = field(default_factory=lambda: [State()])
    times: list[float] = field(default_factory=lambda: [0.0])
    actions: list[list[Action]] = field(default_factory=lambda: [[]])


@st.composite
def lives(draw: st.DrawFn) -> tuple[Rules, Life]:
    obeyed, life = draw(all_rules), Life()
    for pause_s, event in draw(st.lists(st.tuples(st.floats(0, 120), events), max_size=25)):
        now_s = life.times[-1] + pause_s
        state, actions = observe(obeyed, life.states[-1], event, at(now_s))
        life.states.append(state)
        life.times.append(now_s)
        life.actions.append(list(actions))
    return obeyed, life


def everything(life: Life) -> list[Action]:
    return [action for actions in life.actions for action in actions]


@given(lives())
def test_a_deadline_only_comes_nearer_and_the_first_reason_stays(found):
    _, life = found
    stopping = [state for state in life.states if state.stop is not None]
    for before, after in itertools.pairwise(stopping):
        earlier, later = before.stop, after.stop
        assert (later.reason, later.requested_s) == (earlier.reason, earlier.requested_s)
        if later.deadline_s > earlier.deadline_s:  # the SIGTERM at the end of the time, and once
            assert (earlier.reason, before.kill_at_s) == (StopReason.TIME_LIMIT, None)
            assert after.kill_at_s is not None


@given(lives())
def test_no_signal_is_handed_on_twice_and_the_chosen_one_is_the_only_one(found):
    obeyed, life = found
    told = [action.signal for action in everything(life) if isinstance(action, Forward)]
    assert len(told) == len(set(told))
    match obeyed.forwarding:
        case Forwarding.NOT:
            assert told == []
        case Forwarding.CHOSEN:
            assert told in ([], [obeyed.forward_signal])
        case Forwarding.AS_IT_CAME:
            pass


@given(lives())
def test_the_tree_is_killed_once_and_never_before_its_time(found):
    obeyed, life = found
    assert sum(isinstance(action, KillTree) for action in everything(life)) <= 1
    for state, now_s, actions in zip(life.states, life.times, life.actions, strict=True):
        for action in actions:
            match action:
                case KillTree(Kill.DEADLINE):
                    assert now_s >= state.stop.deadline_s
                case KillTree(Kill.LEAVING):
                    assert now_s - state.done_since_s >= obeyed.times.leave_s
                case KillTree(Kill.HUNG):
                    assert now_s - state.lost_since_s >= RANK_LOST_S
                case _:
                    pass


@given(lives())
def test_the_first_request_is_shown_once_and_every_change_of_it_too(found):
    _, life = found
    shown = [action.request for action in everything(life) if isinstance(action, ShowStop)]
    seen = [state.stop for state in life.states if state.stop is not None]
    assert shown == list(dict.fromkeys(seen))
    assert sum(action.fresh for action in everything(life) if isinstance(action, ShowStop)) <= 1


@given(lives())
def test_a_passed_deadline_never_leaves_a_tree_running(found):
    _, life = found
    for state, now_s in zip(life.states, life.times, strict=True):
        if state.stop is not None and now_s >= state.stop.deadline_s:
            assert state.kill is not None or state.code is not None


@given(lives())
def test_the_loop_never_sleeps_past_a_deadline_nor_through_a_stop_by_the_clock(found):
    obeyed, life = found
    for state, now_s in zip(life.states, life.times, strict=True):
        wait_s = next_look_s(obeyed, state, at(now_s))
        assert 0 <= wait_s <= 1
        if state.stop is not None and not math.isinf(state.stop.deadline_s):
            assert wait_s <= max(state.stop.deadline_s - now_s, 0)
