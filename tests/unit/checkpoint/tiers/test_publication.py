from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.tiers.contents import Contents
from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.fetching import fetch, read_published, read_run
from slurm_resilience.checkpoint.tiers.publication import Outgoing, Parcel, claim, publish, published_in
from slurm_resilience.checkpoint.tiers.published import (
    NoteDamaged,
    NoteUnsupported,
    Published,
    PublishedFile,
    contents_note,
    decode_published,
    encode_note,
)
from slurm_resilience.checkpoint.tiers.retry import TRIES, pauses_s, persistently
from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointUnavailable,
    CheckpointUnsupported,
    ConfigurationError,
)
from tests.unit.checkpoint.tiers.files import NoTime, contents_of, files_below, some_bytes
from tests.unit.checkpoint.tiers.places_of_every_kind import depot, memory_store, refuse_at

__all__ = ["depot"]

STEP = "step-0000000120.a3"
FILES = {f"rank-{rank:05d}.h5": some_bytes(5000 + rank, seed=rank) for rank in range(3)}


def parcel(folder: Path, checkpoint: str = STEP, files: dict[str, bytes] = FILES) -> Parcel:
    folder.mkdir(parents=True, exist_ok=True)
    outgoing = []
    for name, data in files.items():
        (folder / name).write_bytes(data)
        outgoing.append(Outgoing(name, folder / name, contents_of(data, 900)))
    listed = tuple(PublishedFile(each.name, each.contents.size_bytes, each.contents.identity) for each in outgoing)
    return Parcel(Published("0123", "night shift", checkpoint, 120, listed, "the line"), tuple(outgoing))


def send(depot: Depot, what: Parcel, transit: Transit | None = None) -> int:
    """How many bytes were moved or found."""
    seen: list[int] = []
    publish(depot, what, transit=transit or Transit(progress=seen.append), clock=NoTime())
    return sum(seen)


def bring(depot: Depot, folder: Path, transit: Transit | None = None) -> None:
    fetch(depot, read_published(depot, STEP), folder, transit=transit or Transit(), clock=NoTime())


def test_what_was_published_comes_back_byte_by_byte(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    assert send(depot, what) == sum(map(len, FILES.values()))
    assert published_in(depot) == [STEP]
    assert read_published(depot, STEP) == what.note
    bring(depot, tmp_path / "back")
    assert files_below(tmp_path / "back") == FILES


def test_a_checkpoint_counts_only_with_its_last_word(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    (tmp_path / "run" / "rank-00002.h5").unlink()
    with pytest.raises(CheckpointDamaged, match="the file is missing"):
        send(depot, what)
    assert published_in(depot) == []
    with pytest.raises(ConfigurationError, match="is not published"):
        read_published(depot, STEP)


def test_the_last_that_is_published_is_the_one_that_a_resume_would_prefer(depot: Depot, tmp_path: Path) -> None:
    names = ["step-0000000120.a9", "step-0000000120.a10", "step-0000000120.a10.final", "step-10000000000.a2"]
    for name in reversed(names):
        send(depot, parcel(tmp_path / "from", name))
    assert published_in(depot) == names


def test_what_is_there_is_not_sent_again(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    (tmp_path / "run" / "rank-00002.h5").unlink()
    with pytest.raises(CheckpointDamaged):
        send(depot, what)
    parcel(tmp_path / "run")
    for name in ("rank-00000.h5", "rank-00001.h5"):
        (tmp_path / "run" / name).write_bytes(b"nobody looks here any more")
    assert send(depot, what) == sum(map(len, FILES.values()))
    assert published_in(depot) == [STEP]
    (tmp_path / "run" / "rank-00002.h5").unlink()
    send(depot, what)  # all is there


def test_an_object_without_the_word_that_it_is_whole_is_sent_again(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    depot.write_note(f"{STEP}/rank-00000.h5", bytes(5000))
    send(depot, what)
    bring(depot, tmp_path / "back")
    assert files_below(tmp_path / "back") == FILES


def test_what_is_published_is_never_replaced(depot: Depot, tmp_path: Path) -> None:
    send(depot, parcel(tmp_path / "run"))
    other = parcel(tmp_path / "other", files={"rank-00000.h5": b"something else"})
    with pytest.raises(ConfigurationError, match="holds another"):
        send(depot, other)
    assert read_published(depot, STEP).files != other.note.files


def test_one_place_holds_the_checkpoints_of_one_run(depot: Depot) -> None:
    with pytest.raises(ConfigurationError, match="no checkpoint is published"):
        read_run(depot)
    claim(depot, "0123", "night shift")
    claim(depot, "0123", "night shift, renamed")
    with pytest.raises(ConfigurationError, match=r"another run \(night shift, 0123\)"):
        claim(depot, "4567", "day shift")
    assert read_run(depot).run == "night shift"
    depot.write_note("run.json", b"{}")
    for look in (read_run, lambda place: claim(place, "0123", "")):
        with pytest.raises(ConfigurationError, match=r"run\.json: it is not what was written"):
            look(depot)


def test_every_single_refusal_of_a_driver_is_outlived(tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    store = memory_store()
    refusing = refuse_at(store)
    send(store, what)
    for call in range(1, refusing.calls + 1):
        store = memory_store()
        refusing = refuse_at(store, call)
        said: list[str] = []
        publish(store, what, transit=Transit(), clock=NoTime(), say=said.append)
        assert "the wire is cut; trying again in " in said[0].replace("[Errno 5] ", "")
        bring(store, tmp_path / f"back{call}")
        assert files_below(tmp_path / f"back{call}") == FILES


def test_a_driver_that_always_refuses_is_given_up_and_the_next_call_goes_on(tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    store = memory_store()
    refuse_at(store, *range(10, 1000))
    with pytest.raises(CheckpointUnavailable):
        send(store, what)
    refuse_at(store)
    (tmp_path / "run" / "rank-00000.h5").unlink()  # it is there already
    send(store, what)
    assert published_in(store) == [STEP]


def test_a_broken_off_fetch_goes_on(depot: Depot, tmp_path: Path) -> None:
    send(depot, parcel(tmp_path / "run"))
    answers = iter([False] * 5 + [True])
    with pytest.raises(Interrupted):
        bring(depot, tmp_path / "back", Transit(lambda: next(answers)))
    bring(depot, tmp_path / "back")
    assert files_below(tmp_path / "back") == FILES


@pytest.mark.parametrize("file", ["rank-00001.h5", "rank-00001.h5.contents", "checkpoint.json"])
@pytest.mark.parametrize("what", ["flipped", "cut"])
def test_a_copy_that_has_rotted_is_damage_and_nothing_gets_its_name(
    depot: Depot, file: str, what: str, tmp_path: Path
) -> None:
    send(depot, parcel(tmp_path / "run"))
    data = bytearray(depot.read_note(f"{STEP}/{file}") or b"")
    if what == "cut":
        del data[-1 if file != "checkpoint.json" else -5 :]
    else:
        data[len(data) // 2] ^= 1
    depot.write_note(f"{STEP}/{file}", bytes(data))
    with pytest.raises(CheckpointDamaged):
        bring(depot, tmp_path / "back")
    assert "rank-00001.h5" not in files_below(tmp_path / "back")


def test_a_missing_list_of_contents_is_damage(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    depot.write_note(f"{STEP}/checkpoint.json", encode_note(what.note))
    with pytest.raises(CheckpointDamaged, match=r"rank-00000\.h5\.contents: the file is missing"):
        bring(depot, tmp_path / "back")


def test_contents_of_another_file_are_damage(depot: Depot, tmp_path: Path) -> None:
    send(depot, parcel(tmp_path / "run"))
    depot.write_note(contents_note(STEP, "rank-00001.h5"), Contents.of(5, []).encode())
    with pytest.raises(CheckpointDamaged, match="doesn't describe the file"):
        bring(depot, tmp_path / "back")


@pytest.mark.parametrize("name", ["../manifest.jsonl", "a/b", "/etc/passwd", ".hidden", "", "x" * 300])
def test_a_note_that_leads_out_of_its_folder_is_damaged(name: str, tmp_path: Path) -> None:
    note = Published("0123", "night", STEP, 1, (PublishedFile(name, 1, "00"),), "line")
    with pytest.raises(NoteDamaged, match="names a file"):
        decode_published(encode_note(note))


def test_a_note_of_a_later_version_is_not_guessed_at(depot: Depot, tmp_path: Path) -> None:
    what = parcel(tmp_path / "run")
    value = json.loads(encode_note(what.note)) | {"version": 2}
    with pytest.raises(NoteUnsupported):
        decode_published(json.dumps(value).encode())
    depot.write_note(f"{STEP}/checkpoint.json", json.dumps(value).encode())
    with pytest.raises(CheckpointUnsupported):
        read_published(depot, STEP)
    with pytest.raises(ConfigurationError):
        send(depot, what)


def test_only_what_is_unavailable_is_tried_again() -> None:
    clock, tries = NoTime(), [0]

    def damaged() -> None:
        tries[0] += 1
        raise CheckpointDamaged(Path("x"), "rotten")

    with pytest.raises(CheckpointDamaged):
        persistently(damaged, clock=clock)
    assert tries == [1]
    assert clock.time_s == 1000

    def unavailable() -> None:
        tries[0] += 1
        raise CheckpointUnavailable("no")

    with pytest.raises(CheckpointUnavailable):
        persistently(unavailable, clock=clock)
    assert tries == [1 + TRIES]
    assert 15 < clock.time_s - 1000 < 31


def test_pauses_grow_and_have_an_upper_bound() -> None:
    assert all(0.5 <= pause <= 60 for pause in pauses_s(20))
    assert len(list(pauses_s(1))) == 0
