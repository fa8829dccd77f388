"""Hypothesis strategies for the lines of a manifest."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointStaged,
    CheckpointUnpinned,
    CheckpointVerified,
    DecisionCarriedOut,
    Line,
    Part,
    Record,
    RunCreated,
    RunFinished,
    RunId,
    SaveFailed,
    SaveReason,
    StopAsked,
    TrainingFinished,
    checkpoint_id,
)

law = settings(deadline=None, max_examples=60)  # a busy machine is no counterexample
attempts = st.integers(1, 6)
steps = st.integers(0, 40)
words = st.text(max_size=12)
ids = st.builds(checkpoint_id, steps, attempts)
parts = st.builds(Part, st.integers(0, 9), words, st.integers(0, 1 << 40), words)
created = st.builds(RunCreated, words.map(RunId), words)


@st.composite
def committed(draw: st.DrawFn) -> CheckpointCommitted:
    step, attempt = draw(steps), draw(attempts)
    files = tuple(draw(st.lists(parts, max_size=3)))
    seconds = draw(st.floats(0, 1e6))
    metric, stall_s = draw(st.none() | st.floats(-1e6, 1e6)), draw(st.none() | st.floats(0, 1e3))
    reason, name = draw(st.sampled_from(SaveReason)), checkpoint_id(step, attempt)
    return CheckpointCommitted(name, step, attempt, reason, len(files), files, seconds, metric, stall_s)


ended = st.builds(
    AttemptEnded,
    attempts,
    st.sampled_from(Cause),
    words,
    st.lists(words, max_size=2).map(tuple),
    words,
    words,
    st.none() | st.integers(0, 255),
    st.none() | steps,
    st.lists(words, max_size=2).map(tuple),
)
later_records: st.SearchStrategy[Record] = st.one_of(
    st.builds(AttemptStarted, attempts, words, st.lists(words, max_size=3).map(tuple), words, st.none() | words),
    st.builds(AttemptResumed, attempts, st.none() | ids, steps, st.integers(1, 9)),
    committed(),
    st.builds(CheckpointStaged, ids, steps, attempts, st.integers(1, 9), words),
    st.builds(CheckpointPublished, ids, words),
    st.builds(CheckpointVerified, ids, attempts, words),
    st.builds(CheckpointPinned, ids, words),
    st.builds(CheckpointUnpinned, ids),
    st.builds(CheckpointDamaged, ids, attempts, words),
    st.builds(CheckpointForgotten, ids, words),
    st.builds(SaveFailed, attempts, steps, words),
    st.builds(StopAsked, attempts, words, words),
    st.builds(TrainingFinished, attempts, steps),
    ended,
    st.builds(DecisionCarriedOut, attempts, words),
    st.builds(RunFinished, attempts),
)
times_s = st.integers(0, 4_000_000_000_000_000).map(lambda microseconds: microseconds / 1e6)
lines = st.builds(Line, st.integers(1, 1 << 40), times_s, created | later_records)


@st.composite
def tellings(draw: st.DrawFn, *, max_size: int = 25) -> list[Line]:
    """The lines of a whole manifest, in order; not always what a sensible run would tell."""
    records: list[Record] = [draw(created), *draw(st.lists(later_records, max_size=max_size))]
    return [Line(seq, 1000.0 + seq, record) for seq, record in enumerate(records, 1)]
