"""When it is the checkpoint, and when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_resilience.manifest.records import Cause, CheckpointQuarantined
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.quarantine import QUARANTINE_STEPS, NotPutAside, Quarantine, Suspicion, suspect
from tests.unit.requeue.chains import Told, chain_of, checkpoint

OLD, NEW = checkpoint(10, 1), checkpoint(20, 1)
BEGUN = Told(Cause.PREEMPTED, saves=(10, 20))
DIED = Told(Cause.CRASHED, resumed=NEW, signature="ValueError: nan", step=23)
DYING = Told(None, resumed=NEW)
SAME = "ValueError: nan"


def suspected(
    *attempts: Told,
    signature: str | None = SAME,
    last_step: int | None = 23,
    cause: Cause = Cause.CRASHED,
    limits: Limits | None = None,
) -> Suspicion | None:
    return suspect(chain_of(*attempts), len(attempts), signature, last_step, cause=cause, limits=limits or Limits())


def test_two_deaths_of_one_signature_soon_after_loading_put_the_checkpoint_aside() -> None:
    found = suspected(BEGUN, DIED, DYING)
    assert isinstance(found, Quarantine)
    assert found.record == CheckpointQuarantined(NEW, 3, found.record.why)
    assert found.back_to == 10
    assert f"attempts 2 and 3 died the same way soon after loading {NEW} (ValueError: nan)" in str(found)


@pytest.mark.parametrize(
    "attempts",
    [
        (BEGUN, DYING),
        (BEGUN, replace(DIED, signature="KeyError"), DYING),
        (BEGUN, replace(DIED, cause=Cause.PREEMPTED), DYING),
        (BEGUN, replace(DIED, resumed=OLD), DYING),
        (BEGUN, replace(DIED, step=20 + QUARANTINE_STEPS + 1), DYING),
        (BEGUN, DIED, replace(DIED, step=20 + QUARANTINE_STEPS + 1, signature="KeyError"), DYING),
        (BEGUN, replace(DIED, quarantines=NEW, releases=NEW), DYING),
        (BEGUN, DIED, replace(DYING, saves=(15,))),
        (BEGUN, DIED, replace(DYING, resumed=None)),
        (BEGUN, DIED, replace(DYING, resumed=OLD)),
        (BEGUN, replace(DIED, resumed=OLD), replace(DYING, resumed=OLD)),
        (Told(), Told(signature=SAME), Told(None)),
    ],
    ids=[
        "the first death",
        "another signature",
        "not a death of its own",
        "of another checkpoint",
        "too late",
        "another got on with it meanwhile",
        "released by a person since",
        "it had a checkpoint of its own",
        "it never loaded anything",
        "it loaded another",
        "another is loaded next anyway",
        "nothing was loaded",
    ],
)
def test_nothing_is_suspected_without_two_such_deaths(attempts: tuple[Told, ...]) -> None:
    assert suspected(*attempts) is None


@pytest.mark.parametrize(
    ("signature", "last_step", "cause"),
    [
        (None, 23, Cause.CRASHED),
        (SAME, 20 + QUARANTINE_STEPS + 1, Cause.CRASHED),
        (SAME, 23, Cause.STORAGE),
        (SAME, 23, Cause.OUT_OF_MEMORY),
        (SAME, 23, Cause.NODE_FAILURE),
        (SAME, 23, Cause.PREEMPTED),
    ],
)
def test_a_death_that_says_nothing_about_the_checkpoint_does_not_count(
    signature: str | None, last_step: int | None, cause: Cause
) -> None:
    assert suspected(BEGUN, DIED, DYING, signature=signature, last_step=last_step, cause=cause) is None


@pytest.mark.parametrize("last_step", [None, 20, 20 + QUARANTINE_STEPS])
def test_an_unknown_step_counts_as_soon(last_step: int | None) -> None:
    assert isinstance(suspected(BEGUN, replace(DIED, step=None), DYING, last_step=last_step), Quarantine)


@pytest.mark.parametrize("between", [Cause.PREEMPTED, Cause.NODE_FAILURE, Cause.STORAGE])
def test_what_somebody_else_ended_in_between_proves_nothing(between: Cause) -> None:
    passed_over = Told(between, resumed=NEW, step=21)
    assert isinstance(suspected(BEGUN, DIED, passed_over, DYING), Quarantine)


def test_after_a_release_it_takes_two_more_deaths() -> None:
    released = replace(DIED, quarantines=NEW, releases=NEW)
    assert suspected(BEGUN, DIED, released, DYING) is None
    assert isinstance(suspected(BEGUN, DIED, released, DIED, DYING), Quarantine)


def test_the_only_checkpoint_is_never_put_aside_and_what_helps_is_named() -> None:
    found = suspected(replace(BEGUN, saves=(20,)), DIED, DYING)
    assert isinstance(found, NotPutAside)
    assert "the only checkpoint that can be loaded" in str(found)
    assert "--from-scratch" in str(found)


def test_so_many_quarantines_without_progress_and_no_more() -> None:
    older = checkpoint(5, 1)
    begun = replace(BEGUN, saves=(5, 10, 20))
    dead = replace(DIED, resumed=OLD)
    chain = (begun, DIED, replace(DIED, quarantines=NEW), dead, replace(DYING, resumed=OLD))
    second = suspected(*chain, limits=Limits(quarantines=2))
    assert isinstance(second, Quarantine)
    assert second.back_to == 5
    found = suspected(*chain, limits=Limits(quarantines=1))
    assert isinstance(found, NotPutAside)
    assert "quarantine 1 of 1 since the last progress has not helped" in str(found)
    assert older not in str(found)
