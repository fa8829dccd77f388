"""Laws of whole runs: attempts that end, are judged, and are followed by the next, until one is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import AlreadyQueued, Requeue, Way, word_for
from slurm_resilience.requeue.history import FREE, history_with, uses
from slurm_resilience.requeue.judgement import Judgement, judge
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.start import may_start
from slurm_resilience.triage.diagnosis import Diagnosis
from tests.unit.requeue.chains import Told, chain_of, checkpoint

ENDS = sorted(set(Cause) - {Cause.FINISHED, Cause.FENCED}, key=lambda cause: cause.name)
limits = st.builds(Limits, *[st.integers(1, 4)] * 8)


@dataclass(frozen=True)
class Fate:
    cause: Cause
    gains: bool
    signature: str | None
    queued: bool


def fates(causes: list[Cause], *, gains: bool = True) -> st.SearchStrategy[list[Fate]]:
    may_gain = st.booleans() if gains else st.just(False)
    one = st.builds(Fate, st.sampled_from(causes), may_gain, st.sampled_from([None, "a", "b"]), st.booleans())
    return st.lists(one, max_size=25)


def live(before: list[Told], fate: Fate, steps: int) -> tuple[list[Told], int]:
    """The attempts with the next one, which resumes from what is newest and ends by `fate`."""
    loadable = chain_of(*before).loadable()
    resumed = loadable[0].committed.checkpoint if loadable else 0
    steps += 10 * fate.gains
    return [*before, Told(None, (steps, steps + 1) if fate.gains else (), resumed)], steps + fate.gains


def judged(told: list[Told], fate: Fate, limits: Limits) -> Judgement:
    return judge(
        chain_of(*told),
        len(told),
        Diagnosis(fate.cause, "because", ()),
        signature=fate.signature,
        last_step=None,
        way=Way.REQUEUE,
        limits=limits,
        queued_by_slurm=fate.queued,
    )


def ended(told: list[Told], fate: Fate, judgement: Judgement, *, carried_out: bool = True) -> list[Told]:
    put_aside = None if judgement.quarantined is None else judgement.quarantined.checkpoint
    last = replace(
        told[-1],
        cause=fate.cause,
        decision=word_for(judgement.decision),
        signature=fate.signature,
        quarantines=put_aside,
        carried_out=carried_out,
    )
    return [*told[:-1], last]


@settings(deadline=None, max_examples=60)
@given(fates(ENDS), limits)
def test_no_limit_is_ever_exceeded(run: list[Fate], limits: Limits) -> None:
    told: list[Told] = []
    steps = 0
    for fate in run:
        told, steps = live(told, fate, steps)
        judgement = judged(told, fate, limits)
        told = ended(told, fate, judgement)
        history = history_with(chain_of(*told), len(told), fate.cause)
        assert all(use.used <= use.limit for use in uses(history, limits))
        if not isinstance(judgement.decision, Requeue | AlreadyQueued):
            return


@settings(deadline=None, max_examples=60)
@given(fates(ENDS), limits, st.booleans())
def test_slurm_alone_never_exceeds_a_limit_by_more_than_one_whatever_it_starts(
    run: list[Fate], limits: Limits, carried_out: bool
) -> None:
    """Slurm starts the job again after whatever was decided; every hold is lost."""
    told: list[Told] = []
    steps = 0
    for fate in run:
        if may_start(chain_of(*told), limits, job="7", restart_count=len(told)) is not None:
            return
        told, steps = live(told, fate, steps)
        told = ended(told, fate, judged(told, fate, limits), carried_out=False)
        history = history_with(chain_of(*told), len(told), fate.cause)
        assert all(use.used <= use.limit + 1 for use in uses(history, limits))


@settings(deadline=None, max_examples=60)
@given(fates(ENDS), limits)
def test_a_quarantine_never_leaves_a_run_without_a_checkpoint_to_load(run: list[Fate], limits: Limits) -> None:
    told: list[Told] = []
    steps = 0
    for fate in run:
        told, steps = live(told, fate, steps)
        judgement = judged(told, fate, limits)
        told = ended(told, fate, judgement)
        chain = chain_of(*told)
        assert bool(chain.loadable()) == chain.ever_had_checkpoint
        if judgement.quarantined is not None:
            assert isinstance(judgement.decision, Requeue | AlreadyQueued)


@settings(deadline=None, max_examples=60)
@given(fates([cause for cause in ENDS if cause not in FREE], gains=False), limits, st.integers(0, 4))
def test_a_run_that_gains_nothing_ends_within_its_limits_unless_it_is_preempted_for_ever(
    run: list[Fate], limits: Limits, checkpoints: int
) -> None:
    told = [Told(Cause.PREEMPTED, tuple(range(10, 10 * checkpoints + 1, 10)))]
    at_most = limits.attempts_without_progress * (limits.quarantines + 1)
    for count, fate in enumerate(run, 1):
        told, _ = live(told, fate, 10 * checkpoints)
        judgement = judged(told, fate, limits)
        told = ended(told, fate, judgement)
        if not isinstance(judgement.decision, Requeue | AlreadyQueued):
            return
        assert count < at_most


@given(st.lists(st.sampled_from(FREE), max_size=30), limits)
def test_preemptions_and_requeues_by_hand_never_end_a_run(causes: list[Cause], limits: Limits) -> None:
    told: list[Told] = []
    for cause in causes:
        told, _ = live(told, Fate(cause, False, None, False), 0)
        judgement = judged(told, Fate(cause, False, None, False), limits)
        told = ended(told, Fate(cause, False, None, False), judgement)
        assert isinstance(judgement.decision, Requeue | AlreadyQueued)


@given(fates(ENDS, gains=False), st.sampled_from(ENDS), limits, st.booleans())
def test_longer_history_without_progress_never_turns_a_stop_into_going_on(
    more: list[Fate], cause: Cause, limits: Limits, queued: bool
) -> None:
    end = Fate(cause, False, None, queued)
    short = [Told(Cause.PREEMPTED, (10,)), Told(None, resumed=checkpoint(10, 1))]
    longer = [short[0], *(Told(fate.cause, resumed=checkpoint(10, 1)) for fate in more), short[1]]
    if not isinstance(judged(short, end, limits).decision, Requeue | AlreadyQueued):
        assert not isinstance(judged(longer, end, limits).decision, Requeue | AlreadyQueued)
