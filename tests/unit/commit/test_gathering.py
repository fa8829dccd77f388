"""A checkpoint comes into being when every rank has given its word, and not otherwise."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.disk.image import Image
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.commit.adoption import adopt, candidates
from slurm_resilience.commit.gathering import Gathering
from slurm_resilience.commit.part_word import (
    PartRefused,
    PartWord,
    PartWritten,
    Terms,
    WordUnreadable,
    hear,
    ranks_heard,
    refuse,
    say,
    terms_from_json,
    terms_to_json,
)
from slurm_resilience.commit.program import Finishing
from slurm_resilience.commit.refusal import errno_of
from slurm_resilience.commit.verdict import Complete, NeverWill, Waiting, judge
from slurm_resilience.errors import CheckpointUnavailable, Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptResumed, AttemptStarted, CheckpointId, SaveReason, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.manifest.text import Text, parse
from tests.unit.training.fakes import FakeClock

TERMS = Terms(checkpoint_id(120, 1), 120, 1, SaveReason.PERIODIC, world_size=2, shared="ab", metric=0.5)
REFUSED = PartRefused(TERMS.checkpoint, 1, "no space left on device")


def written(rank: int, terms: Terms = TERMS, *, seconds: float = 1.0) -> PartWritten:
    receipt = PartReceipt(rank, f"checkpoints/{terms.checkpoint}/rank-{rank:05d}.h5", 4096, "xxh3-128:00:100")
    return PartWritten(terms, receipt, seconds, stall_s=seconds / 10)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    journal = Journal(run)
    journal.create("test")
    journal.append(AttemptStarted(1, "local", (), "host"))
    return run


def gathering(run: RunDirectory, *, fence: int = 1) -> Gathering:
    return Gathering(Journal(run), run.checkpoints / TERMS.checkpoint, world_size=2, fence=fence, clock=FakeClock())


@pytest.mark.parametrize(
    "word",
    [written(7), PartRefused(TERMS.checkpoint, 7, "why"), PartRefused(TERMS.checkpoint, 7, "full", errno.ENOSPC)],
)
def test_a_word_is_heard_as_it_was_said(tmp_path: Path, word: PartWord) -> None:
    say(tmp_path / "deep" / "folder", word)
    assert ranks_heard(tmp_path / "deep" / "folder") == {7}
    assert hear(tmp_path / "deep" / "folder", 7) == word


def test_terms_survive_json() -> None:
    assert terms_from_json(terms_to_json(TERMS)) == TERMS


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2}', '{"format": 1, "terms": {}}', '{"format": 1, "refused": {"why": 1}}', "[1]"]
)
def test_a_word_that_is_not_ours_is_unreadable_and_refuses_the_checkpoint(run: RunDirectory, text: str) -> None:
    folder = run.checkpoints / TERMS.checkpoint
    say(folder, written(0))
    (folder / "rank-00001.receipt").write_text(text)
    with pytest.raises(WordUnreadable, match=r"rank-00001\.receipt"):
        hear(folder, 1)
    seen = gathering(run).look()
    assert isinstance(seen, NeverWill)
    assert "rank-00001.receipt" in seen.why


def test_a_refusal_without_an_errno_is_heard_too(tmp_path: Path) -> None:
    (tmp_path / "rank-00001.receipt").write_text('{"format": 1, "refused": {"checkpoint": "c", "rank": 1, "why": "w"}}')
    assert hear(tmp_path, 1) == PartRefused(CheckpointId("c"), 1, "w")


def test_a_disk_without_room_for_a_word_takes_a_refusal_all_the_same(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    folder = run.checkpoints / TERMS.checkpoint
    say(folder, written(0))
    say(folder, written(1))
    monkeypatch.setattr("slurm_resilience.commit.part_word.replace_durably", full)
    refuse(folder, REFUSED)
    assert isinstance(gathering(run).look(), NeverWill)


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EIO, "I/O error"), errno.EIO),
        (CheckpointUnavailable("no"), None),
        (ValueError("no"), None),
    ],
)
def test_the_errno_behind_an_error_is_found(error: Exception, number: int | None) -> None:
    assert errno_of(error) == number
    behind = CheckpointUnavailable("it can't be written")
    behind.__cause__ = error
    assert errno_of(behind) == number


def test_a_word_under_another_rank_s_name_is_unreadable(tmp_path: Path) -> None:
    say(tmp_path, written(0))
    (tmp_path / "rank-00000.receipt").rename(tmp_path / "rank-00003.receipt")
    with pytest.raises(WordUnreadable, match="the word of rank 0"):
        hear(tmp_path, 3)


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ({}, Waiting, ""),
        ({0: written(0)}, Waiting, ""),
        ({1: REFUSED}, NeverWill, "rank 1: no space left"),
        ({1: PartRefused(TERMS.checkpoint, 1, "full", errno.EDQUOT)}, NeverWill, "rank 1: full"),
        ({0: written(0), 1: REFUSED}, NeverWill, "rank 1: no space left"),
        ({0: written(0), 1: written(1, replace(TERMS, shared="cd"))}, NeverWill, "diverged"),
        ({0: written(0), 1: written(1, replace(TERMS, attempt=2))}, NeverWill, "attempt 2"),
        ({0: written(0), 1: written(1, replace(TERMS, step=121))}, NeverWill, "rank 1 has written"),
        ({0: written(0), 1: written(1)}, Complete, ""),
    ],
)
def test_what_words_make(words: dict[int, PartWord], kind: type, says: str) -> None:
    seen = judge(words, 2)
    assert type(seen) is kind
    assert says in getattr(seen, "why", "")


def test_a_checkpoint_says_what_the_slowest_rank_took() -> None:
    seen = judge({0: written(0, seconds=1.0), 1: written(1, seconds=3.0)}, 2)
    assert isinstance(seen, Complete)
    assert (seen.committed.seconds, seen.committed.stall_s, seen.committed.metric) == (3.0, 0.3, 0.5)
    assert [part.rank for part in seen.committed.parts] == [0, 1]


def test_whoever_waits_commits_when_the_last_word_has_come(run: RunDirectory) -> None:
    folder = run.checkpoints / TERMS.checkpoint
    say(folder, written(0))
    waiting = gathering(run)
    assert waiting.look() == Waiting(frozenset({1}))
    say(folder, written(1))
    seen = waiting.wait()
    assert isinstance(seen, Complete)
    assert waiting.commit(seen.committed) is None
    assert [each.committed for each in Chain.of(Journal(run).read()).checkpoints] == [seen.committed]


def test_a_part_that_never_comes_is_not_waited_for_without_end(run: RunDirectory) -> None:
    say(run.checkpoints / TERMS.checkpoint, written(0))
    seen = gathering(run).wait(30.0)
    assert isinstance(seen, NeverWill)
    assert "rank 1 within 30 s" in seen.why


def test_a_manifest_on_a_full_disk_is_told_by_its_errno(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    for rank in (0, 1):
        say(run.checkpoints / TERMS.checkpoint, written(rank))
    whole = gathering(run)
    seen = whole.look()
    assert isinstance(seen, Complete)
    monkeypatch.setattr("slurm_resilience.manifest.journal.os.write", full)
    refused = whole.commit(seen.committed)
    assert refused is not None
    assert refused.errno == errno.ENOSPC


def test_a_writer_reads_a_manifest_once_however_many_checkpoints_it_commits(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def noted(path: Path, raw: bytes, *, first_seq: int = 1) -> Text:
        read.append(len(raw))
        return parse(path, raw, first_seq=first_seq)

    monkeypatch.setattr("slurm_resilience.manifest.journal.parse", noted)
    finishing = Finishing(run, 1, Journal(run))
    for step in (120, 130):
        word = written(0, replace(TERMS, checkpoint=checkpoint_id(step, 1), step=step, world_size=1, shared=None))
        context = {"terms": terms_to_json(word.terms), "began_s": 0.0, "stall_s": 0.0, "shared_rows": []}
        image = Image(4096, 100, 0, ())
        finishing.finish(WriteJob(word.terms.checkpoint, 0, word.receipt.file, image, context), word.receipt)
    assert [size > 0 for size in read] == [True, False]


def test_a_ghost_s_writer_commits_nothing(run: RunDirectory) -> None:
    say(run.checkpoints / TERMS.checkpoint, written(0))
    say(run.checkpoints / TERMS.checkpoint, written(1))
    Journal(run).append(AttemptStarted(2, "local", (), "host"))
    ghost = gathering(run)
    seen = ghost.look()
    assert isinstance(seen, Complete)
    with pytest.raises(Fenced):
        ghost.commit(seen.committed)
    assert Chain.of(Journal(run).read()).checkpoints == ()


def _next_attempt(run: RunDirectory, number: int, *, resumed: bool = False) -> None:
    Journal(run).append(AttemptStarted(number, "local", (), "host"))
    if resumed:
        Journal(run).append(AttemptResumed(number, None, 0, 2))


def _write(run: RunDirectory, word: PartWritten) -> Path:
    """The part, then the word."""
    path = run.path / word.receipt.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(word.receipt.bytes))
    say(path.parent, word)
    return path


def test_what_is_whole_and_was_not_committed_is_adopted_by_the_next_attempt_once(run: RunDirectory) -> None:
    half = replace(TERMS, checkpoint=checkpoint_id(150, 1), step=150)
    for word in (written(0), written(1), written(0, half)):
        _write(run, word)
    (run.checkpoints / "step-0000000999.a1").mkdir()
    (run.checkpoints / "something else").mkdir()
    _next_attempt(run, 2)
    adopted = adopt(run, attempt=2, clock=FakeClock())
    assert [committed.checkpoint for committed in adopted] == [TERMS.checkpoint]
    assert adopt(run, attempt=2, clock=FakeClock()) == []
    assert Chain.of(Journal(run).read()).next_step == 120


@pytest.mark.parametrize("left", [None, b"", bytes(4000)])
def test_words_without_their_parts_are_not_adopted(run: RunDirectory, left: bytes | None) -> None:
    _write(run, written(0))
    part = _write(run, written(1))
    part.unlink()
    if left is not None:
        part.write_bytes(left)
    _next_attempt(run, 2)
    assert adopt(run, attempt=2, clock=FakeClock()) == []
    assert Chain.of(Journal(run).read()).checkpoints == ()


def test_a_run_without_checkpoints_has_nothing_to_adopt(run: RunDirectory) -> None:
    assert adopt(run, attempt=2, clock=FakeClock()) == []


def test_what_a_ghost_finished_after_others_had_gone_on_is_no_past_of_ours(run: RunDirectory) -> None:
    for rank in (0, 1):
        _write(run, written(rank))
    _next_attempt(run, 2, resumed=True)
    _next_attempt(run, 3)
    assert adopt(run, attempt=3, clock=FakeClock()) == []
    assert Chain.of(Journal(run).read()).checkpoints == ()


def test_an_attempt_that_never_got_to_its_ranks_does_not_hide_the_one_before(run: RunDirectory) -> None:
    _next_attempt(run, 2)
    _next_attempt(run, 3)
    chain = Chain.of(Journal(run).read())
    found = ["step-0000000120.a1", "step-0000000100.a2", "step-0000000100.a3", "step-12.a1", ".ballast"]
    assert candidates(found, chain, 3) == ["step-0000000100.a2", "step-0000000120.a1"]


def test_a_word_is_heard_once_for_an_adoption_so_that_no_second_reading_can_fail(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not adopted now never is: the next attempt goes on from somewhere else."""
    for rank in range(2):
        _write(run, written(rank))
    _next_attempt(run, 2)
    heard: list[int] = []

    def stale_the_second_time(folder: Path, rank: int) -> PartWord:
        if rank in heard:
            raise OSError(errno.ESTALE, "Stale file handle")
        heard.append(rank)
        return hear(folder, rank)

    monkeypatch.setattr("slurm_resilience.commit.gathering.hear", stale_the_second_time)
    assert [each.checkpoint for each in adopt(run, attempt=2, clock=FakeClock())] == [TERMS.checkpoint]
