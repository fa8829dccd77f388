"""What every Depot must do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.depots import depot_at
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.object_store import ObjectStore, _upload
from slurm_resilience.checkpoint.tiers.places import Folder, ObjectUrl
from slurm_resilience.checkpoint.tiers.transit import Interrupted, Transit
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, ConfigurationError
from tests.unit.checkpoint.tiers.files import MemorySource, contents_of, some_bytes
from tests.unit.checkpoint.tiers.places_of_every_kind import depot, memory_store, refuse_at

__all__ = ["depot"]

DATA = some_bytes(10_000)
CONTENTS = contents_of(DATA, 700)
NAME = "step-0000000120.a3/rank-00000.h5"


def put(depot: Depot, data: bytes = DATA, transit: Transit | None = None) -> None:
    depot.put(NAME, MemorySource(data), CONTENTS, owner="step-0000000120.a3", transit=transit or Transit())


def read(depot: Depot, name: str) -> bytes:
    source = depot.source(name)
    with source:
        data = bytearray(source.size_bytes())
        at = 0
        while count := source.read_into(at, memoryview(data)[at : at + 3000]):
            at += count
        return bytes(data[:at])


def test_what_is_put_is_what_comes_back(depot: Depot) -> None:
    assert depot.size_of(NAME) is None
    put(depot)
    assert depot.size_of(NAME) == len(DATA)
    assert read(depot, NAME) == DATA


def test_a_note_is_the_last_one_written(depot: Depot) -> None:
    assert depot.read_note("a/note.json") is None
    depot.write_note("a/note.json", b"one")
    depot.write_note("a/note.json", b"two")
    assert depot.read_note("a/note.json") == b"two"


def test_folders_are_those_at_the_top(depot: Depot) -> None:
    assert depot.folders() == []
    depot.write_note("run.json", b"x")
    depot.write_note("b/note", b"x")
    depot.write_note("a/note", b"x")
    assert depot.folders() == ["a", "b"]


def test_nothing_is_no_source(depot: Depot) -> None:
    with pytest.raises(FileNotFoundError):
        depot.source(NAME).__enter__()


def test_a_source_that_is_not_what_was_written_is_never_there_whole(depot: Depot) -> None:
    with pytest.raises(CheckpointDamaged):
        put(depot, DATA[:9000] + b"?" * 1000)
    assert depot.size_of(NAME) != len(DATA)


def test_an_interrupted_put_can_be_made_again(depot: Depot) -> None:
    answers = iter([False, False, True])
    with pytest.raises(Interrupted):
        put(depot, transit=Transit(lambda: next(answers)))
    assert depot.size_of(NAME) != len(DATA)
    put(depot)
    assert read(depot, NAME) == DATA


def test_a_place_says_which_depot_it_is(tmp_path: Path) -> None:
    assert isinstance(depot_at(Folder(tmp_path)), FolderDepot)
    assert isinstance(depot_at(ObjectUrl("s3://bucket/x")), ObjectStore)
    assert depot_at(ObjectUrl("s3://bucket/x")).where == "s3://bucket/x"


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (OSError(5, "the wire is cut"), CheckpointUnavailable),
        (TimeoutError("too slow"), CheckpointUnavailable),
        (RuntimeError("whatever a driver likes"), CheckpointUnavailable),
        (PermissionError("not yours"), ConfigurationError),
        (NotImplementedError(), ConfigurationError),
    ],
)
def test_whatever_a_driver_raises_is_said_in_our_words(raised: Exception, said: type[Exception]) -> None:
    for verb in (
        lambda store: store.size_of(NAME),
        lambda store: store.read_note(NAME),
        lambda store: store.write_note(NAME, b"x"),
        lambda store: store.folders(),
        put,
        lambda store: store.source(NAME).__enter__(),
    ):
        store = memory_store()
        refuse_at(store, 1, error=raised)
        with pytest.raises(said) as caught:
            verb(store)
        assert caught.value.__cause__ is raised


def test_a_bucket_that_is_not_there_is_never_made_and_the_user_hears_of_it() -> None:
    store = memory_store()
    refusing = refuse_at(store, 1, error=FileNotFoundError("no such bucket"))
    with pytest.raises(ConfigurationError, match="no such bucket or folder"):
        put(store)
    assert refusing.calls == 1


def test_where_there_are_folders_they_are_made(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    store = ObjectStore(f"local://{tmp_path}/deep/runs")
    put(store)
    assert (tmp_path / "deep" / "runs" / NAME).read_bytes() == DATA
    assert store.folders() == ["step-0000000120.a3"]


def test_an_upload_that_is_not_whole_is_discarded_and_never_closed() -> None:
    class Upload:
        closed = False
        heard: list[str] = []  # noqa: RUF012 one per class is enough here

        def discard(self) -> None:
            self.heard.append("discard")

        def close(self) -> None:
            self.heard.append("close")

    upload: Any = Upload()
    with pytest.raises(Interrupted), _upload(upload):
        raise Interrupted
    assert upload.heard == ["discard"]
    assert upload.closed is True
    with _upload(upload):
        pass
    assert upload.heard == ["discard", "close"]


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match=r"slurm-resilience\[object-store\]"):
        ObjectStore("s3://bucket/x").folders()


def test_without_its_driver_a_url_says_which_one_is_missing() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(ConfigurationError, match="can't be reached"):
        ObjectStore("nosuchprotocol://bucket/x").folders()


def test_a_folder_that_refuses_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for verb in (
        lambda: FolderDepot(tmp_path / "file").size_of("x/y"),
        lambda: FolderDepot(tmp_path / "file").read_note("x/y"),
        lambda: FolderDepot(tmp_path / "file").write_note("x/y", b""),
        lambda: FolderDepot(tmp_path / "file").folders(),
    ):
        with pytest.raises(CheckpointUnavailable):
            verb()
