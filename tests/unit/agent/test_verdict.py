"""The table of ends, and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.agent.supervision import Kill, State
from slurm_resilience.agent.verdict import judge, not_started, stopped_before_start
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from tests.unit.agent.scene import page, pages

STEPPING, STOPPED, FINISHED, FAILED = RankPhase.STEPPING, RankPhase.STOPPED, RankPhase.FINISHED, RankPhase.FAILED
ASKED = StopRequest(StopReason.TERMINATION, "SIGTERM came", 0.0, 20.0)


@pytest.mark.parametrize(
    ("state", "outcome", "exit_code"),
    [
        (State(code=0), Outcome.FINISHED, 0),
        (State(code=3), Outcome.FAILED, 3),
        (State(code=139), Outcome.FAILED, 139),
        # a program that doesn't know us, asked to stop: whatever it says
        (State(code=0, stop=ASKED), Outcome.STOPPED, 75),
        (State(code=143, stop=ASKED), Outcome.STOPPED, 75),
        (State(code=1, stop=ASKED), Outcome.STOPPED, 75),
        # one that does: its word counts, not its code
        (State(code=0, pages=pages(FINISHED, FINISHED)), Outcome.FINISHED, 0),
        (State(code=0, stop=ASKED, pages=pages(FINISHED, FINISHED)), Outcome.FINISHED, 0),
        (State(code=5, pages=pages(FINISHED, FINISHED)), Outcome.FINISHED, 5),
        (State(code=137, kill=Kill.LEAVING, stop=ASKED, pages=pages(FINISHED, FINISHED)), Outcome.FINISHED, 0),
        (State(code=0, stop=ASKED, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 75),
        (State(code=0, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 75),  # another node was asked
        (State(code=0, stop=ASKED, pages=pages(STOPPED, FINISHED)), Outcome.STOPPED, 75),
        (State(code=134, stop=ASKED, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 75),
        (State(code=137, stop=ASKED, kill=Kill.LEAVING, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 75),
        (State(code=137, stop=ASKED, kill=Kill.DEADLINE, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 75),
        (State(code=0, stop=ASKED, pages=pages(STOPPED, STEPPING)), Outcome.STOPPED, 75),
        (State(code=137, stop=ASKED, pages=pages(STOPPED, STEPPING)), Outcome.FAILED, 137),
        (State(code=1, stop=ASKED, pages=pages(FAILED, STOPPED)), Outcome.FAILED, 1),
        (State(code=1, pages=pages(FAILED, STEPPING)), Outcome.FAILED, 1),
        (State(code=0, pages=pages(FAILED, FINISHED)), Outcome.FAILED, 1),
        (State(code=0, pages=pages(STEPPING, STEPPING)), Outcome.FINISHED, 0),
        # killed
        (State(code=137, stop=ASKED, kill=Kill.DEADLINE), Outcome.KILLED_AT_DEADLINE, 137),
        (State(stop=ASKED, kill=Kill.DEADLINE), Outcome.KILLED_AT_DEADLINE, 137),
        (
            State(code=137, stop=ASKED, kill=Kill.DEADLINE, pages=pages(STEPPING, STEPPING, saved=40)),
            Outcome.KILLED_AT_DEADLINE,
            75,
        ),
        (State(code=137, kill=Kill.HUNG, lost="rank 1 died"), Outcome.FAILED, 137),
        # a ghost: only a training that the journal has taken as finished is anything else
        (State(code=1, newer=2, pages=pages(FAILED, FAILED)), Outcome.STOPPED, 79),
        (State(code=0, newer=2), Outcome.STOPPED, 79),
        (State(kill=Kill.DEADLINE, newer=2, stop=ASKED), Outcome.STOPPED, 79),
        (State(code=0, newer=2, stop=ASKED, pages=pages(STOPPED, STOPPED)), Outcome.STOPPED, 79),
        (State(code=0, newer=2, pages=pages(FINISHED, FINISHED)), Outcome.FINISHED, 0),
        # a rank that was refused by the journal, before the agent saw why
        (State(code=79, pages=pages(FAILED, STEPPING)), Outcome.STOPPED, 79),
        (State(code=79), Outcome.FAILED, 79),
    ],
)
def test_how_it_ended_is_judged_by_what_was_seen(state, outcome, exit_code):
    verdict = judge(state, ranks=2)
    assert (verdict.outcome, verdict.exit_code) == (outcome, exit_code)


def test_a_kill_at_the_deadline_names_the_step_that_every_rank_has_seen_saved():
    seen = (page(0, STEPPING, saved=40), page(1, STEPPING, saved=30))
    assert "step 30" in judge(State(stop=ASKED, kill=Kill.DEADLINE, code=137, pages=seen), ranks=2).why


def test_a_command_that_never_ran_is_not_started_or_was_asked_first():
    assert not_started("no such program").outcome is Outcome.NOT_STARTED
    assert stopped_before_start("SIGTERM came").exit_code == 75


phases = st.sampled_from(RankPhase)
states = st.builds(
    State,
    stop=st.none() | st.just(ASKED),
    pages=st.lists(phases, max_size=3).map(lambda found: pages(*found)),
    kill=st.none() | st.sampled_from(Kill),
    code=st.none() | st.integers(0, 255),
    lost=st.just("rank 1 died"),
    newer=st.none() | st.just(2),
)


@given(states, st.integers(1, 3))
def test_a_training_is_finished_only_by_its_own_word_or_when_nobody_asked_it_to_stop(state, ranks):
    if judge(state, ranks).outcome is Outcome.FINISHED:
        own_word = len(state.pages) >= ranks and all(found.phase is FINISHED for found in state.pages)
        assert own_word or (state.stop is None and state.kill is None and state.newer is None and state.code == 0)


@given(states, st.integers(1, 3))
def test_the_exit_code_never_says_finished_for_anything_else(state, ranks):
    verdict = judge(state, ranks)
    assert (verdict.exit_code == 0) <= (verdict.outcome is Outcome.FINISHED)
    assert verdict.exit_code in (75, 79) or (verdict.outcome is not Outcome.STOPPED)
    assert (verdict.exit_code == 75) <= (state.newer is None)


@given(states, st.integers(1, 3))
def test_whatever_is_no_plain_success_says_why(state, ranks):
    verdict = judge(state, ranks)
    if verdict.outcome in (Outcome.FAILED, Outcome.KILLED_AT_DEADLINE):
        assert verdict.why
