"""Who may start a run again: a person always, Slurm only a run that was not given up."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.start import may_start
from slurm_resilience.requeue.starter import Starter, who_started
from tests.unit.requeue.chains import Told, chain_of

STOPPED = Told(decision="stop")
HELD = Told(decision="hold")
TWICE_STOPPED = (STOPPED, Told(decision="stop"))


@pytest.mark.parametrize(
    ("before", "job", "restart_count", "expected"),
    [
        (Told(), None, None, Starter.PERSON),
        (Told(job=None), "7", 1, Starter.PERSON),
        (Told(), "8", 0, Starter.PERSON),
        (Told(), "7", 0, Starter.PERSON),
        (Told(), "7", 1, Starter.SLURM),
        (Told(None), "7", 1, Starter.SLURM),
        (STOPPED, "7", 1, Starter.EITHER),
        (HELD, "7", 1, Starter.PERSON),
        (Told(decision="hold", carried_out=False), "7", 1, Starter.SLURM),
        (Told(successor="8"), "8", 0, Starter.SLURM),
        (Told(successor="8"), "8", 1, Starter.PERSON),
        (Told(decision="stop", successor="8"), "8", None, Starter.SLURM),
        (Told(decision="stop", successor="8"), "9", 0, Starter.PERSON),
    ],
)
def test_who_started_a_job_is_told_as_far_as_the_journal_goes(
    before: Told, job: str | None, restart_count: int | None, expected: Starter
) -> None:
    assert who_started(chain_of(before).attempts[0], job, restart_count) is expected


@pytest.mark.parametrize(
    ("attempts", "job", "restart_count", "successor"),
    [
        ((), "7", 0, False),
        ((Told(),), "7", 1, False),
        ((STOPPED,), "8", 0, False),
        ((STOPPED,), None, None, False),
        ((STOPPED,), "7", 1, False),
        ((HELD,), "7", 1, False),
        ((Told(), Told()), "8", 0, False),
        ((Told(None),), "7", 1, False),
        ((Told(successor="8", decision="successor"),), "8", 0, True),
        ((Told(decision="stop", successor="8"),), "8", 1, True),
        ((Told(Cause.PREEMPTED),) * 5, "7", 5, False),
        ((STOPPED, Told(decision="stop", saves=(10,))), "7", 2, False),
    ],
    ids=[
        "the first",
        "queued again within its budget",
        "submitted anew after a stop",
        "started by hand after a stop",
        "once after a stop, whoever it was",
        "released after it was held",
        "submitted anew although the budget is spent",
        "nobody has told the end",
        "a successor that was to go on",
        "a successor that a person has queued again",
        "preempted for ever",
        "it gained something after the stop",
    ],
)
def test_it_may_start(attempts: tuple[Told, ...], job: str | None, restart_count: int | None, successor: bool) -> None:
    chain = chain_of(*attempts)
    assert may_start(chain, Limits(), job=job, restart_count=restart_count, successor=successor) is None


@pytest.mark.parametrize(
    ("attempts", "job", "restart_count", "successor", "words"),
    [
        (TWICE_STOPPED, "7", 2, False, "its reason"),
        ((Told(decision="hold", carried_out=False),), "7", 1, False, "its reason"),
        ((Told(decision="stop", successor="8"),), "8", 0, False, "its reason"),
        ((Told(decision="stop"),), "8", 0, True, "its reason"),
        ((Told(Cause.CANCELLED, decision="stop", successor="8"),), "8", 0, True, "its reason"),
        ((Told(), Told(decision="leave")), "7", 2, False, "2 attempts in a row gained no step"),
        ((Told(Cause.OUT_OF_MEMORY, saves=(1,)), Told(Cause.OUT_OF_MEMORY)), "7", 2, False, "2 of 2"),
        ((Told(), Told(successor="8", decision="leave")), "8", 0, True, "2 attempts in a row gained no step"),
    ],
    ids=[
        "twice after a stop without gaining anything",
        "it should have been held",
        "a successor whose cancellation never arrived",
        "a successor that the journal doesn't know",
        "a successor of a run that a person has cancelled",
        "Slurm queued it while nobody was there to decide",
        "the budget of its cause is spent",
        "the successor of one that died without a word",
    ],
)
def test_a_run_that_was_given_up_is_not_started_by_slurm(
    attempts: tuple[Told, ...], job: str, restart_count: int, successor: bool, words: str
) -> None:
    refusal = may_start(chain_of(*attempts), Limits(), job=job, restart_count=restart_count, successor=successor)
    assert refusal is not None
    assert words in refusal.reason
    assert "submit it again" in refusal.reason


@pytest.mark.parametrize(
    ("release", "restart_count", "refused"),
    [
        ((24, 5), 2, True),
        ((24, 11), 2, True),
        ((25, 11), 2, True),
        ((22, 5), 2, False),
        ((26, 5), 2, False),
        (None, 2, False),
        ((24, 11), 3, False),
    ],
)
def test_the_life_that_some_slurms_give_a_preempted_job_is_not_taken_for_a_persons_word(
    release: tuple[int, int] | None, restart_count: int, refused: bool
) -> None:
    chain = chain_of(Told(Cause.PREEMPTED, saves=(10,)), Told(Cause.OPERATOR_STOP, decision="stop", saves=(20,)))
    refusal = may_start(chain, Limits(), job="7", restart_count=restart_count, release=release)
    assert (refusal is not None) is refused


def test_a_job_that_was_never_preempted_is_not_given_such_a_life() -> None:
    assert may_start(chain_of(STOPPED), Limits(), job="7", restart_count=1, release=(24, 11)) is None


def test_a_persons_word_outranks_whatever_was_decided() -> None:
    assert may_start(chain_of(*TWICE_STOPPED), Limits(), job="7", restart_count=2, asked=True) is None


def test_the_start_itself_may_stand_in_the_journal_already() -> None:
    begun = Told(None, restart=1)
    assert may_start(chain_of(Told(decision="hold", carried_out=False), begun), Limits(), job="7", restart_count=1)
    assert may_start(chain_of(Told(), begun), Limits(), job="7", restart_count=1) is None
