"""Exactly one job waits to go on: whatever Slurm lists, and however often one looks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import (
    AttemptStarted,
    Line,
    Record,
    RunCreated,
    RunId,
    SuccessorPlanned,
    SuccessorQueued,
)
from slurm_resilience.requeue.successor import (
    Keep,
    Known,
    Plan,
    Repoint,
    Respect,
    Submit,
    Wait,
    chained_by_another,
    plan_successor,
    predecessor,
    successors_in,
    token_of,
    waits_for,
    with_token,
)
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from tests.faults.fake_slurm import running

ME = JobRef("7")
RUN = "0123456789abcdef"
TOKEN = token_of(RUN)
KNOWN = Known(TOKEN, None, frozenset(), {"7": 0})
ENDED = [state for state in JobState if state not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)]


def waiting(job: str, dependency: str = "afterany:7(unfulfilled)", comment: str = TOKEN) -> JobRecord:
    return running(job, state=JobState.PENDING, dependency=dependency, comment=comment)


@pytest.mark.parametrize(
    ("others", "known", "step"),
    [
        ([], KNOWN, Submit("afterany:7")),
        ([waiting("8")], KNOWN, Keep(JobRef("8"))),
        ([waiting("8", comment=f"my words {TOKEN}")], KNOWN, Keep(JobRef("8"))),
        ([waiting("8", comment="")], KNOWN, Submit("afterany:7")),
        ([waiting("8", comment="")], replace(KNOWN, successors=frozenset({"8"})), Keep(JobRef("8"))),
        ([waiting("8", comment=f"{TOKEN}0")], KNOWN, Submit("afterany:7")),  # another run's
        ([waiting("8", "afterany:3")], KNOWN, Repoint(JobRef("8"), "afterany:7")),
        ([waiting("8", "")], KNOWN, Repoint(JobRef("8"), "afterany:7")),
        ([waiting("8", "singleton(unfulfilled)")], KNOWN, Keep(JobRef("8"))),
        ([running("8", comment=TOKEN)], KNOWN, Wait("job 8 of this run is RUNNING besides job 7")),
        ([running("3", comment=TOKEN)], replace(KNOWN, lives={"7": 0, "3": 0}), Submit("afterany:7")),
        ([waiting("3", "", "")], replace(KNOWN, lives={"7": 0, "3": 0}), Submit("afterany:7")),
        (
            [replace(waiting("3", "", ""), restarts=1)],
            replace(KNOWN, lives={"7": 0, "3": 0}),
            Repoint(JobRef("3"), "afterany:7"),
        ),
        ([running("8", state=JobState.CANCELLED, comment=TOKEN)], KNOWN, Submit("afterany:7")),
        ([running("8", state=JobState.CANCELLED)], replace(KNOWN, named="8"), Submit("afterany:7")),
        (
            [running("8", state=JobState.CANCELLED)],
            replace(KNOWN, named="8", successors=frozenset({"8"})),
            Respect(JobRef("8")),
        ),
        ([running("8", state=JobState.FAILED, comment=TOKEN)], replace(KNOWN, named="8"), Submit("afterany:7")),
    ],
)
def test_what_is_there_decides_what_is_done(others: list[JobRecord], known: Known, step: object) -> None:
    assert plan_successor([running("7"), *others], ME, known).step == step


def test_an_array_element_that_was_cancelled_while_it_waited_is_listed_by_its_array() -> None:
    known = replace(KNOWN, named="8_3", successors=frozenset({"8_3"}))
    listing = [running("7"), running("8", state=JobState.CANCELLED, comment=TOKEN)]
    assert plan_successor(listing, ME, known).step == Respect(JobRef("8"))


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (waiting("8", comment=token_of("another")), "8"),
        (waiting("8", comment=TOKEN), None),
        (waiting("8", comment="my own words"), None),
        (waiting("8", "afterany:3", token_of("another")), None),
        (running("8", comment=token_of("another")), None),
    ],
)
def test_the_successor_of_another_run_in_the_same_job_is_found(record: JobRecord, found: str | None) -> None:
    assert chained_by_another([running("7"), record], ME, TOKEN) == found


def test_a_comment_with_the_token_is_never_longer_than_sbatch_takes() -> None:
    comment = with_token("é" * 2000, TOKEN)
    assert len(comment.encode()) <= 1024
    assert comment.endswith(f" {TOKEN}")


def test_a_list_without_our_own_job_is_no_answer_to_submit_on() -> None:
    assert isinstance(plan_successor([running("6")], ME, KNOWN).step, Wait)
    assert plan_successor([waiting("8")], ME, KNOWN).step == Keep(JobRef("8"))


def test_singleton_is_asked_for_where_the_user_says_so() -> None:
    assert plan_successor([running("7")], ME, KNOWN, singleton=True).step == Submit("singleton")


@pytest.mark.parametrize(
    ("dependency", "job", "waits"),
    [
        ("afterany:7(unfulfilled)", "7", True),
        ("afterany:77(unfulfilled)", "7", False),
        ("afterok:7(unfulfilled)", "7", False),
        ("afterany:3:7", "7", True),
        ("afterany:100_4(unfulfilled)", "100_4", True),
        ("afterany:100_14(unfulfilled)", "100_4", False),
        ("afterok:3(unfulfilled),afterany:7(unfulfilled)", "7", True),
        ("", "7", False),
    ],
)
def test_a_dependency_is_read_as_slurm_writes_it(dependency: str, job: str, waits: bool) -> None:
    assert waits_for(dependency, JobRef(job)) is waits


def test_the_users_own_comment_stays_and_the_token_stands_once() -> None:
    once = with_token("paper 3, fig 2", TOKEN)
    assert once == f"paper 3, fig 2 {TOKEN}"
    assert with_token(once, TOKEN) == once
    assert with_token("slurm-resilience:another", TOKEN) == TOKEN


records = st.builds(
    running,
    job=st.integers(1, 12).map(str),
    state=st.sampled_from(JobState),
    completing=st.booleans(),
    restarts=st.integers(0, 2),
    comment=st.sampled_from(["", TOKEN, f"mine {TOKEN}", "slurm-resilience:other"]),
    dependency=st.sampled_from(["", "afterany:7(unfulfilled)", "afterany:3(unfulfilled)", "singleton(unfulfilled)"]),
)
listings = st.lists(records, unique_by=lambda record: record.job).map(
    lambda found: [running("7"), *(record for record in found if record.job != "7")]
)
knowns = st.builds(
    Known,
    token=st.just(TOKEN),
    named=st.none() | st.integers(1, 12).map(str),
    successors=st.frozensets(st.integers(1, 12).map(str)),
    lives=st.dictionaries(st.integers(1, 12).map(str), st.integers(0, 2)),
)


def carried_out(listing: list[JobRecord], plan: Plan) -> list[JobRecord]:
    jobs = {record.job: record for record in listing}
    match plan.step:
        case Submit(dependency):
            jobs[JobRef("99")] = waiting("99", dependency)
        case Repoint(job, dependency):
            jobs[job] = replace(jobs[job], dependency=dependency)
        case Keep() | Respect() | Wait():
            pass
    for job in plan.extras:
        jobs[job] = replace(jobs[job], state=JobState.CANCELLED)
    return list(jobs.values())


@given(listings, knowns)
def test_once_the_plan_is_carried_out_exactly_one_waits_and_a_second_look_changes_nothing(
    listing: list[JobRecord], known: Known
) -> None:
    plan = plan_successor(listing, ME, known)
    after = carried_out(listing, plan)
    left = successors_in(after, ME, known)
    if isinstance(plan.step, (Respect, Wait)):
        assert left == ()
        return
    assert len(left) == 1
    again = plan_successor(after, ME, known)
    assert again == Plan(Keep(left[0]))


@given(listings, knowns)
def test_nothing_is_submitted_while_a_job_might_still_go_on(listing: list[JobRecord], known: Known) -> None:
    if not isinstance(plan_successor(listing, ME, known).step, Submit):
        return
    for record in listing:
        if record.job != ME and known.is_of_the_run(record) and not known.has_begun(record):
            assert record.state in ENDED
            assert record.state is not JobState.UNKNOWN


@given(listings, knowns)
def test_what_is_no_job_of_the_run_is_never_touched(listing: list[JobRecord], known: Known) -> None:
    theirs = {record.job for record in listing if not known.is_of_the_run(record)}
    plan = plan_successor(listing, ME, known)
    touched = set(plan.extras)
    if isinstance(plan.step, Repoint):
        touched.add(plan.step.job)
    assert not touched & theirs
    assert ME not in touched


def chain_of(*told: Record) -> Chain:
    lines = (RunCreated(RunId(RUN), "run"), AttemptStarted(1, "batch", (), "n1", "7"), *told)
    return Chain.of(Line(number, float(number), record) for number, record in enumerate(lines, 1))


@pytest.mark.parametrize(
    ("told", "job", "restarts", "said", "comment", "found"),
    [
        ((SuccessorQueued(1, "8"),), "8", 0, None, "", True),
        ((SuccessorQueued(1, "8"),), "8", 1, "1:7", TOKEN, False),  # requeued by a person
        ((SuccessorPlanned(1, TOKEN),), "8", 0, "1:7", TOKEN, True),  # died before it could be told
        ((SuccessorPlanned(1, TOKEN),), "8", 0, "1:7", None, True),
        ((), "8", 0, "1:7", "", False),  # submitted by hand, from inside of job 7
        ((), "8", 0, None, "", False),
        ((), "8", 0, "5:7", TOKEN, False),
        ((), "8", 0, "nonsense", TOKEN, False),
    ],
)
def test_a_successor_is_told_from_what_a_person_has_submitted(
    told: tuple[Record, ...], job: str, restarts: int, said: str | None, comment: str | None, found: bool
) -> None:
    before = predecessor(chain_of(*told), job=job, restart_count=restarts, said=said, comment=comment)
    assert (before is not None and before.number == 1) is found


def test_what_the_journal_knows_is_read_from_all_attempts() -> None:
    chain = chain_of(SuccessorQueued(1, "8"), AttemptStarted(2, "batch", (), "n1", "8"), SuccessorQueued(2, "9"))
    second = chain.attempt(2)
    assert second is not None
    assert Known.of(chain, second) == Known(TOKEN, "9", frozenset({"8", "9"}), {"7": 0, "8": 0})
