"""What follows from a preflight, as a table, and what holds whatever it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.preflight_verdict import PreflightVerdict, Then, Unfit
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.result import Finding, Outcome, Problem, Result, broken, fail, ok, warn
from slurm_resilience.preflight.verdict import judge
from slurm_resilience.supervisor.fitness import SAID, NotRun, Room, weigh
from slurm_resilience.supervisor.request import OnPreflight

NODES = ("n1", "n2", "n3", "n4")
NO_SPARE = Room(needed=4, to_choose=False, elsewhere=True)
ONE_SPARE = Room(needed=3, to_choose=True, elsewhere=True)
EXCLUDE, STOP, WARN = OnPreflight.EXCLUDE, OnPreflight.STOP, OnPreflight.WARN

FINE = ok("64 MiB are written in 0.1 s")
SICK = fail(Problem.NODE, "3 uncorrectable errors", "have the GPU replaced")
FULL = fail(Problem.USER, "/scratch/run is full", "make room")
SLOW = warn(Problem.NODE, "the clock is 2 s ahead", "ask for chrony")


def report(*results: tuple[str | None, Finding], nodes: tuple[str, ...] = NODES) -> Report:
    """Of check `gpu`, as preflight itself would make it."""
    told = tuple(Result("gpu", node, finding) for node, finding in results)
    verdict = judge(told, nodes)
    return Report(
        outcome=verdict.outcome,
        exit_code=int(verdict.exit_code),
        sentence=verdict.sentence,
        job="7",
        restart=0,
        nodes=nodes,
        started_s=0.0,
        took_s=1.0,
        results=told,
        exclude=verdict.exclude,
    )


NOTHING_FOUND = replace(report(), outcome="broken", exit_code=3, sentence="no node answered")


@pytest.mark.parametrize(
    ("found", "wish", "room", "then"),
    [
        (report(("n1", FINE)), EXCLUDE, NO_SPARE, Then.GO_ON),
        (report(("n1", FINE)), STOP, NO_SPARE, Then.GO_ON),
        (report(("n1", SLOW)), EXCLUDE, NO_SPARE, Then.GO_ON),
        (report(("n1", SLOW)), STOP, NO_SPARE, Then.GO_ON),
        (report(("n1", broken("it raised KeyError"))), EXCLUDE, NO_SPARE, Then.GO_ON),
        (report(("n1", broken("it raised KeyError"))), STOP, NO_SPARE, Then.REFUSE),
        (NOTHING_FOUND, EXCLUDE, NO_SPARE, Then.GO_ON),
        (NOTHING_FOUND, WARN, NO_SPARE, Then.GO_ON),
        (NOTHING_FOUND, STOP, NO_SPARE, Then.REFUSE),
        (NotRun("it left with 1"), EXCLUDE, NO_SPARE, Then.GO_ON),
        (NotRun("it left with 1"), WARN, NO_SPARE, Then.GO_ON),
        (NotRun("it left with 1"), STOP, NO_SPARE, Then.REFUSE),
        (report(("n2", SICK)), EXCLUDE, NO_SPARE, Then.LEAVE_OUT),
        (report(("n2", SICK)), EXCLUDE, ONE_SPARE, Then.GO_ON_WITHOUT),
        (report(("n2", SICK)), EXCLUDE, replace(ONE_SPARE, to_choose=False), Then.LEAVE_OUT),
        (report(("n2", SICK)), EXCLUDE, replace(NO_SPARE, elsewhere=False), Then.REFUSE),
        (report(("n2", SICK)), EXCLUDE, replace(ONE_SPARE, elsewhere=False), Then.GO_ON_WITHOUT),
        (report(("n2", SICK)), STOP, ONE_SPARE, Then.REFUSE),
        (report(("n2", SICK)), WARN, NO_SPARE, Then.GO_ON),
        (report(("n2", SICK), ("n3", SICK)), EXCLUDE, ONE_SPARE, Then.LEAVE_OUT),
        (report(("n2", SICK), ("n3", SICK)), EXCLUDE, NO_SPARE, Then.LEAVE_OUT),
        (report(*((node, SICK) for node in NODES[:3])), EXCLUDE, NO_SPARE, Then.REFUSE),
        (report(*((node, SICK) for node in NODES)), EXCLUDE, NO_SPARE, Then.REFUSE),
        (report(*((node, SICK) for node in NODES)), WARN, NO_SPARE, Then.GO_ON),
        (report(("n2", FULL)), EXCLUDE, ONE_SPARE, Then.REFUSE),
        (report((None, FULL)), EXCLUDE, ONE_SPARE, Then.REFUSE),
        (report((None, FULL)), WARN, ONE_SPARE, Then.GO_ON),
        (report(("n1", SICK), ("n2", FULL)), EXCLUDE, ONE_SPARE, Then.REFUSE),
        (report((None, SICK)), EXCLUDE, ONE_SPARE, Then.REFUSE),
        (report(("elsewhere", SICK)), EXCLUDE, ONE_SPARE, Then.REFUSE),
        (report(("n1", SICK), nodes=("n1",)), EXCLUDE, Room(1, False, True), Then.LEAVE_OUT),
        (report(("n1", SICK), nodes=("n1", "n2")), EXCLUDE, Room(2, False, True), Then.LEAVE_OUT),
    ],
)
def test_a_failure_ends_or_moves_an_attempt_or_is_only_said(
    found: Report | NotRun, wish: OnPreflight, room: Room, then: Then
) -> None:
    assert weigh(found, wish=wish, room=room).then is then


def test_a_node_that_is_left_out_is_told_with_its_check_and_what_helps() -> None:
    verdict = weigh(report(("n2", SICK), ("n1", SLOW)), wish=EXCLUDE, room=NO_SPARE)
    assert verdict.unfit == (Unfit("n2", ("gpu: 3 uncorrectable errors",)),)
    assert verdict.because == "the next attempt runs without n2: n2: gpu: 3 uncorrectable errors"
    assert verdict.remedy == "have the GPU replaced"
    assert verdict.warnings == ("n1: gpu: the clock is 2 s ahead",)


def test_what_most_nodes_have_is_said_to_be_no_nodes_fault() -> None:
    verdict = weigh(report(*((node, SICK) for node in NODES[:3])), wish=EXCLUDE, room=NO_SPARE)
    assert verdict.unfit == ()
    assert "on 3 of 4 nodes, so that it is no node's fault: n1: gpu: 3 uncorrectable errors (and 2 more)" in (
        verdict.because
    )


def test_the_users_problem_is_the_one_that_is_told_where_a_node_has_another() -> None:
    assert weigh(report(("n1", SICK), ("n2", FULL)), wish=EXCLUDE, room=NO_SPARE).because == (
        "n2: gpu: /scratch/run is full"
    )


@pytest.mark.parametrize(
    ("node", "check", "then"),
    [("n9", "gpu", Then.REFUSE), ("n9", "storage", Then.LEAVE_OUT), ("n1", "gpu", Then.LEAVE_OUT)],
)
def test_a_job_of_one_node_is_moved_once_for_one_failure(node: str, check: str, then: Then) -> None:
    before = PreflightVerdict(Then.LEAVE_OUT, "", (node,), (Unfit(node, ()),), (check,))
    alone = report(("n1", SICK), nodes=("n1",))
    assert weigh(alone, wish=EXCLUDE, room=Room(1, False, True), before=before).then is then


def test_more_warnings_than_anybody_reads_are_counted() -> None:
    verdict = weigh(report(*[("n1", SLOW)] * (SAID + 3)), wish=EXCLUDE, room=NO_SPARE)
    assert len(verdict.warnings) == SAID + 1
    assert verdict.warnings[-1] == "and 3 more, in the report"


FINDINGS = st.sampled_from([FINE, SICK, FULL, SLOW, broken("?")])
RESULTS = st.lists(st.tuples(st.sampled_from([*NODES, None]), FINDINGS), max_size=8)
ROOMS = st.builds(Room, st.integers(1, 4), st.booleans(), st.booleans())


@given(RESULTS, ROOMS, st.sampled_from(OnPreflight))
def test_no_step_runs_on_fewer_nodes_than_it_needs_and_never_is_a_majority_left_out(
    results: list[tuple[str | None, Finding]], room: Room, wish: OnPreflight
) -> None:
    verdict = weigh(report(*results), wish=wish, room=room)
    assert 2 * len(verdict.unfit) <= len(NODES)
    if verdict.then is Then.GO_ON_WITHOUT:
        assert len(NODES) - len(verdict.unfit) >= room.needed
    assert (verdict.unfit != ()) is (verdict.then in (Then.GO_ON_WITHOUT, Then.LEAVE_OUT))


@given(RESULTS, ROOMS)
def test_who_wants_to_be_warned_only_is_never_stopped(results: list[tuple[str | None, Finding]], room: Room) -> None:
    verdict = weigh(report(*results), wish=WARN, room=room)
    assert verdict.then is Then.GO_ON
    bad = [finding for _, finding in results if finding.outcome is not Outcome.OK]
    assert bool(verdict.warnings) is bool(bad)
