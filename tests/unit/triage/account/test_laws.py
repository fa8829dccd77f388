"""What holds for every account, whatever the lines."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.triage.account.as_json import as_json
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.event import Event
from tests.unit.triage.account.scenes import ADVICE, CUDA, FULL, NODE, OOM, PEER, STORE, TIME, TIMED_OUT, account, said

TIMES = st.one_of(st.none(), st.integers(0, 5000).map(float))
ROOTS = st.builds(
    said, st.sampled_from([CUDA, FULL, OOM, TIME, NODE, None]), st.integers(0, 3), TIMES, line=st.integers(1, 99)
)
NO_NEWS = st.builds(said, st.sampled_from([PEER, STORE, ADVICE]), st.integers(0, 3), TIMES, line=st.integers(1, 99))
WAITS = st.builds(said, st.just(TIMED_OUT), st.integers(0, 3), TIMES, line=st.integers(1, 99))
KNOWN_ROOTS = ROOTS.filter(lambda event: event.known is not None)
FOUR = Facts(world_size=4)
UNHURRIED = settings(deadline=None)  # the first example loads the table of known failures


@UNHURRIED
@given(st.lists(KNOWN_ROOTS, min_size=1, max_size=4), st.lists(NO_NEWS, max_size=6))
def test_cascades_and_advice_anywhere_never_change_the_root(roots: list[Event], noise: list[Event]) -> None:
    alone, among = account(*roots, facts=FOUR), account(*noise, *roots, facts=FOUR)
    assert (alone.cause, alone.title, alone.first) == (among.cause, among.title, among.first)


@UNHURRIED
@given(st.lists(ROOTS, min_size=1, max_size=4), st.lists(st.one_of(NO_NEWS, WAITS), max_size=6))
def test_nothing_but_a_root_is_taken_for_the_cause_where_there_is_one(roots: list[Event], noise: list[Event]) -> None:
    told = account(*noise, *roots, facts=FOUR)
    texts = {event.text for event in roots}
    assert told.quotes[0].text in texts


@UNHURRIED
@given(st.lists(st.one_of(ROOTS, NO_NEWS, WAITS), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_in_which_files_are_named_never_changes_the_account(events: list[Event], random: object) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert as_json(account(*events, facts=FOUR)) == as_json(account(*shuffled, facts=FOUR))


@UNHURRIED
@given(st.lists(st.one_of(ROOTS, NO_NEWS, WAITS), min_size=1, max_size=8), st.integers(0, 3), st.integers(-9000, 9000))
def test_a_clock_that_is_off_by_what_was_measured_changes_nothing(events: list[Event], rank: int, off_s: int) -> None:
    node = f"n{rank + 1}"
    shifted = [
        replace(event, time_s=event.time_s + off_s)
        if event.speaker.node == node and event.time_s is not None
        else event
        for event in events
    ]
    measured = replace(FOUR, offsets_s={node: float(off_s)})
    assert as_json(account(*events, facts=FOUR)) == as_json(account(*shifted, facts=measured))
