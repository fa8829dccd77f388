from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from slurm_resilience.manifest.chain import Chain, Checkpoint, CheckpointState
from slurm_resilience.manifest.records import (
    AttemptResumed,
    AttemptStarted,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointStaged,
    CheckpointUnpinned,
    CheckpointVerified,
    Line,
    Part,
    Record,
    RunCreated,
    RunId,
    SaveReason,
    checkpoint_id,
)
from tests.unit.manifest.records_of_every_kind import law, tellings

NAME = checkpoint_id(10, 1)
PART = Part(0, "checkpoints/x/rank-00000.h5", 4096, "xxh3-128:00")
SAVED = CheckpointCommitted(NAME, 10, 1, SaveReason.PERIODIC, 1, (PART,), 1.0)
SAVED_ANEW = replace(SAVED, parts=(replace(PART, checksum="xxh3-128:11"),))
STAGED = CheckpointStaged(NAME, 10, 1, 1, "local")
PIN, UNPIN = CheckpointPinned(NAME, "for the paper"), CheckpointUnpinned(NAME)
VERIFIED, PUBLISHED = CheckpointVerified(NAME, 1, "checkpoints verify"), CheckpointPublished(NAME, "s3://b/p")
DAMAGED, FORGOTTEN = CheckpointDamaged(NAME, 1, "short"), CheckpointForgotten(NAME, "retention")


def told(*records: Record) -> Chain:
    lines: list[Record] = [RunCreated(RunId("r1"), "night shift"), AttemptStarted(1, "bare", (), "host"), *records]
    return Chain.of([Line(seq, 1000.0 + seq, record) for seq, record in enumerate(lines, 1)])


def only(*records: Record) -> Checkpoint:
    (checkpoint,) = told(*records).checkpoints
    return checkpoint


@pytest.mark.parametrize(
    ("records", "pinned"),
    [
        ([SAVED], None),
        ([SAVED, PIN], "for the paper"),
        ([SAVED, PIN, UNPIN], None),
        ([SAVED, PIN, UNPIN, CheckpointPinned(NAME, "again")], "again"),
        ([SAVED, PIN, DAMAGED], "for the paper"),  # still a person's
        ([SAVED, PIN, SAVED_ANEW], "for the paper"),
        ([SAVED, FORGOTTEN, PIN], None),  # there is nothing left to keep
        ([SAVED, PIN, FORGOTTEN, SAVED], None),
        ([PIN, SAVED], None),
    ],
)
def test_a_pin_holds_until_it_is_taken_out(records: list[Record], pinned: str | None) -> None:
    assert only(*records).pinned == pinned


@pytest.mark.parametrize(
    ("records", "verified"),
    [
        ([SAVED], False),
        ([SAVED, VERIFIED], True),
        ([SAVED, AttemptResumed(1, NAME, 10, 1)], True),
        ([SAVED, AttemptResumed(1, None, 0, 1)], False),
        ([SAVED, VERIFIED, DAMAGED], False),
        ([SAVED, DAMAGED, VERIFIED], False),
        ([SAVED, VERIFIED, SAVED], True),  # a line told twice
        ([SAVED, VERIFIED, SAVED_ANEW], False),  # nobody has read these bytes
        ([SAVED, VERIFIED, DAMAGED, SAVED], False),
        ([VERIFIED, SAVED], False),
    ],
)
def test_verified_is_who_was_read_whole_and_nothing_has_spoken_against_it(
    records: list[Record], verified: bool
) -> None:
    assert only(*records).verified is verified


@pytest.mark.parametrize(
    ("records", "published"),
    [
        ([SAVED], ()),
        ([SAVED, PUBLISHED, PUBLISHED], ("s3://b/p",)),
        ([SAVED, PUBLISHED, CheckpointPublished(NAME, "/archive")], ("s3://b/p", "/archive")),
        ([SAVED, PUBLISHED, FORGOTTEN], ("s3://b/p",)),  # the copy is not forgotten with it
        ([SAVED, FORGOTTEN, PUBLISHED], ("s3://b/p",)),
        ([SAVED, PUBLISHED, FORGOTTEN, SAVED], ("s3://b/p",)),  # fetched back
        ([SAVED, PUBLISHED, SAVED_ANEW], ()),
    ],
)
def test_published_are_the_places_where_these_very_bytes_lie(records: list[Record], published: tuple[str, ...]) -> None:
    assert only(*records).published == published


@pytest.mark.parametrize(
    ("records", "staged"),
    [
        ([STAGED], [("local", False)]),
        ([STAGED, STAGED], [("local", False)]),
        ([STAGED, replace(STAGED, where="burst")], [("local", False), ("burst", False)]),
        ([STAGED, SAVED], [("local", True)]),
        ([SAVED, STAGED], [("local", True)]),
        ([STAGED, DAMAGED], []),
        ([STAGED, SAVED, FORGOTTEN], []),
        ([SAVED, FORGOTTEN, STAGED], []),
    ],
)
def test_what_is_staged_is_listed_until_it_may_not_be_loaded(
    records: list[Record], staged: list[tuple[str, bool]]
) -> None:
    assert [(each.record.where, each.durable) for each in told(*records).staged] == staged


def test_a_checkpoint_that_is_only_staged_is_no_checkpoint_and_no_progress() -> None:
    chain = told(STAGED)
    assert chain.checkpoints == ()
    assert chain.loadable() == ()
    assert not chain.ever_had_checkpoint
    assert not chain.attempts[0].gained


@law
@given(tellings())
def test_only_live_checkpoints_are_verified_and_nothing_forgotten_is_pinned_or_staged(lines: list[Line]) -> None:
    chain = Chain.of(lines)
    for checkpoint in chain.checkpoints:
        assert not checkpoint.verified or checkpoint.state is CheckpointState.LIVE
        assert len(set(checkpoint.published)) == len(checkpoint.published)
        if checkpoint.state is CheckpointState.FORGOTTEN:
            assert checkpoint.pinned is None
    live = {checkpoint.committed.checkpoint for checkpoint in chain.loadable()}
    for staged in chain.staged:
        assert staged.durable is (staged.record.checkpoint in live)
