"""A quarantine as the manifest tells it: out of the way, kept, and taken back by a person."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.retention import Policy, plan_retention
from slurm_resilience.commit.adoption import candidates
from slurm_resilience.manifest.chain import Chain, CheckpointState, live_of
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointQuarantined,
    CheckpointReleased,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveReason,
    checkpoint_id,
)

STEPS = (10, 20, 30)
POISON = checkpoint_id(30, 1)


def chain_of(*records: Record) -> Chain:
    saves = [CheckpointCommitted(checkpoint_id(step, 1), step, 1, SaveReason.PERIODIC, 2, (), 1.0) for step in STEPS]
    told = [RunCreated(RunId("r"), "n"), AttemptStarted(1, "batch", ("t",), "n1", "7"), *saves, *records]
    return Chain.of(Line(seq, float(seq), record) for seq, record in enumerate(told, 1))


def state_of(chain: Chain) -> CheckpointState:
    return next(each.state for each in chain.checkpoints if each.committed.checkpoint == POISON)


def loads(chain: Chain) -> list[int]:
    return [each.committed.step for each in chain.loadable()]


ASIDE = CheckpointQuarantined(POISON, 1, "two deaths")


def test_the_run_goes_back_to_the_one_before() -> None:
    chain = chain_of(ASIDE)
    assert loads(chain) == [20, 10]
    assert chain.next_step == 20
    assert chain.attempts[0].quarantined == (POISON,)


def test_a_release_takes_it_back_whole() -> None:
    chain = chain_of(CheckpointPinned(POISON, "mine"), ASIDE, CheckpointReleased(POISON))
    assert loads(chain) == [30, 20, 10]
    found = chain.loadable()[0]
    assert (found.why, found.pinned) == (None, "mine")


def test_retention_neither_forgets_it_nor_counts_it() -> None:
    plan = plan_retention(live_of(chain_of(ASIDE).checkpoints), Policy(keep_last=1))
    assert [each.checkpoint for each in plan.keep] == [checkpoint_id(20, 1)]
    assert [each.checkpoint for each in plan.forget] == [checkpoint_id(10, 1)]


def test_its_files_are_never_adopted_as_a_new_checkpoint() -> None:
    assert candidates([POISON, checkpoint_id(40, 1)], chain_of(ASIDE), 2) == [checkpoint_id(40, 1)]


def test_what_is_damaged_or_forgotten_stays_so() -> None:
    assert state_of(chain_of(CheckpointDamaged(POISON, 1, "w"), ASIDE)) is CheckpointState.DAMAGED
    assert state_of(chain_of(ASIDE, CheckpointForgotten(POISON, "w"), CheckpointReleased(POISON))) is (
        CheckpointState.FORGOTTEN
    )
    assert state_of(chain_of(ASIDE, CheckpointDamaged(POISON, 1, "w"))) is CheckpointState.DAMAGED


@given(st.lists(st.sampled_from([ASIDE, CheckpointReleased(POISON)]), max_size=12))
def test_the_last_word_counts(words: list[Record]) -> None:
    aside = bool(words) and words[-1] == ASIDE
    assert (30 in loads(chain_of(*words))) == (not aside)
