from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.staged_file import is_staging
from slurm_resilience.checkpoint.tiers import transfer
from slurm_resilience.checkpoint.tiers.source import FileSource
from slurm_resilience.checkpoint.tiers.transfer import Copied, copy_file, copy_path
from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable
from tests.unit.checkpoint.tiers.files import MemorySource, contents_of, files_below, some_bytes

DATA = some_bytes(10_000)
CONTENTS = contents_of(DATA, 700, gap_bytes=30)
OWNER = "step-0000000120.a3"


def copy(source: MemorySource, final: Path, transit: Transit | None = None) -> Copied:
    return copy_file(source, CONTENTS, final, owner=OWNER, transit=transit or Transit())


def stopping_after(count: int) -> Transit:
    left = [count + 1]  # it is asked before the first piece, too

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    return Transit(stop)


def test_a_copy_is_the_same_and_nothing_else_is_left(tmp_path: Path) -> None:
    final = tmp_path / "new" / "rank-00000.h5"
    seen: list[int] = []
    assert copy(MemorySource(DATA), final, Transit(progress=seen.append)) == Copied(len(DATA), 0)
    assert files_below(tmp_path) == {"new/rank-00000.h5": DATA}
    assert sum(seen) == len(DATA)


def test_a_copy_that_is_there_already_is_read_and_not_made_again(tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    copy(MemorySource(DATA), final)
    source = MemorySource(DATA)
    assert copy(source, final) == Copied(0, len(DATA))
    assert source.reads == []


@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: d + b"x", lambda d: d[:5] + b"?" + d[6:], lambda d: b""])
def test_what_lies_under_the_final_name_and_is_wrong_is_replaced(spoil, tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    final.write_bytes(spoil(DATA))
    copy(MemorySource(DATA), final)
    assert files_below(tmp_path) == {"rank-00000.h5": DATA}


def test_an_interrupted_copy_goes_on_from_what_is_proven(tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    with pytest.raises(Interrupted):
        copy(MemorySource(DATA), final, stopping_after(4))
    assert not final.exists()
    (left,) = tmp_path.iterdir()
    assert is_staging(left)
    assert OWNER in left.name
    source = MemorySource(DATA)
    copied = copy(source, final)
    assert copied.found_bytes > 2000
    assert min(source.reads) == copied.found_bytes
    assert files_below(tmp_path) == {"rank-00000.h5": DATA}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9_999), st.integers(0, 9_999), st.booleans())
def test_what_a_crash_has_made_of_a_broken_off_copy_is_never_trusted(
    tmp_path_factory: pytest.TempPathFactory, length: int, wrong: int, longer: bool
) -> None:
    """The file's length survives a crash of the node before its bytes do: then it ends in zeros."""
    final = tmp_path_factory.mktemp("copy") / "rank-00000.h5"
    data = bytearray(DATA[:length])
    if wrong < length:
        data[wrong:] = bytes(length - wrong)
    copy_path(final, OWNER, CONTENTS).write_bytes(data + bytes(20_000 * longer))
    copy(MemorySource(DATA), final)
    found = final.read_bytes()
    assert len(found) == len(DATA)
    assert all(found[s.offset : s.end] == DATA[s.offset : s.end] for s in CONTENTS.spans)
    assert len(list(final.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (DATA[:-1], "it has 9999 bytes, 10000 were written"),
        (DATA[:5000] + b"?" + DATA[5001:], "tensor t6 has the checksum"),
    ],
)
def test_a_source_that_is_not_what_was_written_leaves_nothing(data: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointDamaged, match=why):
        copy(MemorySource(data), tmp_path / "rank-00000.h5")
    assert files_below(tmp_path) == {}


def test_a_source_that_is_gone_is_damage(tmp_path: Path) -> None:
    with pytest.raises(CheckpointDamaged, match="the file is missing"):
        copy_file(FileSource(tmp_path / "none"), CONTENTS, tmp_path / "copy", owner=OWNER, transit=Transit())


def test_a_source_that_is_unlinked_while_it_is_copied_is_copied_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(DATA)

    def unlink(count: int) -> None:
        path.unlink(missing_ok=True)

    transit = Transit(progress=unlink)
    copy_file(FileSource(path), CONTENTS, tmp_path / "copy", owner=OWNER, transit=transit)
    assert files_below(tmp_path) == {"copy": DATA}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["pwrite", "fsync", "open", "replace", "preadv"])
def test_every_refusal_is_unavailable_and_the_next_try_makes_it_good(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = tmp_path / "to" / "rank-00000.h5"
    source = tmp_path / "from"
    source.write_bytes(DATA)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "replace" else os, call, refuse)
        with pytest.raises(CheckpointUnavailable) as caught:
            copy_file(FileSource(source), CONTENTS, final, owner=OWNER, transit=Transit())
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == number
    assert not final.exists()
    if number in (errno.ENOSPC, errno.EDQUOT) and call in ("pwrite", "fsync"):
        assert files_below(tmp_path / "to") == {}  # half a copy must not hold the room that a save needs
    copy_file(FileSource(source), CONTENTS, final, owner=OWNER, transit=Transit())
    assert files_below(tmp_path / "to") == {"rank-00000.h5": DATA}


def test_two_copiers_at_once_both_succeed(tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    done: list[Copied] = []

    def overtake(offset: int) -> None:
        if offset >= 5000 and not done:
            done.append(copy(MemorySource(DATA), final))

    copy(MemorySource(DATA, overtake), final)
    assert done
    assert files_below(tmp_path) == {"rank-00000.h5": DATA}


def test_a_copier_that_is_overtaken_while_it_proves_what_it_has_found_makes_no_holes(tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    copy_path(final, OWNER, CONTENTS).write_bytes(DATA[:5000])
    done: list[Copied] = []

    def overtake() -> bool:
        if not done:
            done.append(copy(MemorySource(DATA), final))
        return False

    copy(MemorySource(DATA), final, Transit(overtake))
    assert files_below(tmp_path) == {"rank-00000.h5": DATA}


def test_a_staging_file_that_somebody_has_put_in_place_of_ours_is_never_published(tmp_path: Path) -> None:
    final = tmp_path / "rank-00000.h5"
    staging = copy_path(final, OWNER, CONTENTS)

    def replace(offset: int) -> None:
        staging.unlink()
        staging.write_bytes(DATA[:100])

    with pytest.raises(CheckpointUnavailable, match="it was removed while it was written"):
        copy(MemorySource(DATA, replace), final)
    assert not final.exists()


def test_a_copy_that_was_swept_away_under_our_hands_is_unavailable(tmp_path: Path) -> None:
    def sweep(offset: int) -> None:
        for path in tmp_path.iterdir():
            path.unlink()

    with pytest.raises(CheckpointUnavailable):
        copy(MemorySource(DATA, sweep), tmp_path / "rank-00000.h5")
    assert files_below(tmp_path) == {}


def test_large_copies_are_made_durable_as_they_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(transfer, "_SYNC_EVERY_BYTES", 3000)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    copy(MemorySource(DATA), tmp_path / "rank-00000.h5")
    assert len(synced) == 3


def test_an_empty_file_can_be_copied(tmp_path: Path) -> None:
    copy_file(MemorySource(b""), contents_of(b"", 1), tmp_path / "empty", owner=OWNER, transit=Transit())
    assert files_below(tmp_path) == {"empty": b""}
