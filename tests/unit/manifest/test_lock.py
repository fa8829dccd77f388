from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from slurm_resilience.errors import ManifestUnavailable
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lock import Flock, NativeLock, RunLock
from slurm_resilience.manifest.records import SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Identity
from tests.unit.manifest.without_flock import HurriedClock, RefusedFlock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "manifest.lock"


def by_link(path: Path, *, clock: HurriedClock | None = None, say: Callable[[str], None] = lambda _: None) -> RunLock:
    return RunLock(path, clock=clock or HurriedClock(), native=RefusedFlock, say=say)


def held(path: Path) -> Path:
    return path.with_name("manifest.lock.held")


def hold(path: Path, holder: Identity) -> None:
    held(path).write_text(json.dumps({"token": "f" * 32, **asdict(holder)}))


def dead_process() -> Identity:
    """A process that has been here, and is gone."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(asdict(Identity.of_this_process())).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return Identity(**json.load(pipe))


def test_who_has_the_lock_keeps_others_out_until_it_leaves(path: Path) -> None:
    with RunLock(path), pytest.raises(ManifestUnavailable), RunLock(path, patience_s=0.05):
        raise AssertionError("two are inside")
    with RunLock(path, patience_s=0.05):
        pass


def test_an_error_inside_lets_the_lock_go(path: Path) -> None:
    with pytest.raises(KeyError), RunLock(path):
        raise KeyError
    with RunLock(path, patience_s=0.05):
        pass


def test_waiting_in_vain_names_the_process_that_has_it(path: Path) -> None:
    sentence = f"{path} is held by process {os.getpid()} on this host for more than 0.05 s"
    with RunLock(path), pytest.raises(ManifestUnavailable, match=sentence), RunLock(path, patience_s=0.05):
        pass


def test_the_lock_of_a_dead_process_is_free(path: Path) -> None:
    child = os.fork()
    if child == 0:
        RunLock(path).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    with RunLock(path, patience_s=0.05):
        pass


@pytest.mark.parametrize(
    "refusal",
    [
        NotImplementedError(),
        *(OSError(code, os.strerror(code)) for code in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)),
    ],
    ids=repr,
)
def test_where_flock_is_refused_a_hard_link_is_used_and_said_once(path: Path, refusal: Exception) -> None:
    class Refused(RefusedFlock):
        def acquire(self, timeout_s: float) -> bool:
            raise refusal

    said: list[str] = []
    for _ in range(3):
        with RunLock(path, clock=HurriedClock(), native=Refused, say=said.append):
            assert held(path).exists()
        assert not held(path).exists()
    assert said == [f"the file system of {path} refuses flock: a lock by hard link is used for this run instead"]


def test_any_other_refusal_is_reported(path: Path) -> None:
    class Forbidden(RefusedFlock):
        def acquire(self, timeout_s: float) -> bool:
            raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(ManifestUnavailable, match="can't be locked"), RunLock(path, native=Forbidden):
        pass


def test_where_nobody_can_tell_which_lock_is_used_none_is_taken(path: Path) -> None:
    by_link(path).mark.symlink_to(
        "x" * 300
    )  # whoever follows it is refused: ENAMETOOLONG, as it might be ESTALE or EIO
    with pytest.raises(ManifestUnavailable, match="by-link can't be looked for"), RunLock(path):
        raise AssertionError("inside")


def test_a_run_directory_that_can_not_be_looked_at_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to("x" * 300)
    with pytest.raises(ManifestUnavailable, match="is not available"):
        Journal(RunDirectory(tmp_path / "run")).append(SaveFailed(1, 7, "why"))


def test_once_a_run_locks_by_link_every_host_does_though_its_flock_works(path: Path) -> None:
    with by_link(path):
        pass
    with RunLock(path, clock=HurriedClock()):
        assert held(path).exists()


def test_who_gets_its_flock_while_another_host_falls_back_falls_back_too(path: Path) -> None:
    released = []

    class Overtaken:
        def __init__(self, path: Path) -> None:
            self.path = path

        def acquire(self, timeout_s: float) -> bool:
            RunLock(self.path).mark.write_text("by another host")
            return True

        def release(self) -> None:
            released.append(self.path)

    native: Callable[[Path], NativeLock] = Overtaken
    with RunLock(path, clock=HurriedClock(), native=native):
        assert held(path).exists()
        assert released == [path]


def test_the_first_to_fall_back_gives_the_last_flock_time_to_finish(path: Path) -> None:
    clock = HurriedClock()
    with by_link(path, clock=clock):
        assert clock.passed_s >= 1
    passed_s = clock.passed_s
    with by_link(path, clock=clock):
        assert clock.passed_s == passed_s


def test_a_link_held_by_a_living_process_is_waited_for_and_never_broken(path: Path) -> None:
    clock = HurriedClock()
    with by_link(path):
        before = held(path).read_bytes()
        with (
            pytest.raises(ManifestUnavailable, match=f"is held by process {os.getpid()} on"),
            by_link(path, clock=clock),
        ):
            pass
        assert held(path).read_bytes() == before
    assert clock.passed_s >= 120


def test_a_link_held_on_another_host_is_never_guessed_about(path: Path) -> None:
    hold(path, replace(dead_process(), host="node17"))
    with pytest.raises(ManifestUnavailable) as caught, by_link(path):
        pass
    assert "on node17: look there with `ps -p " in str(caught.value)
    assert str(caught.value).endswith(f"remove {held(path)}")
    assert held(path).exists()


def test_a_link_that_names_nobody_is_left_to_a_person(path: Path) -> None:
    held(path).write_bytes(b"")
    with pytest.raises(ManifestUnavailable, match=f"{held(path)} names no holder.*remove it"), by_link(path):
        pass


@pytest.mark.parametrize("change", [{}, {"boot_id": "an earlier one"}], ids=["process gone", "host started anew"])
def test_a_link_whose_holder_is_proven_gone_is_broken(path: Path, change: dict[str, str]) -> None:
    hold(path, replace(dead_process(), **change))  # type: ignore[arg-type]
    with by_link(path):
        pass
    assert sorted(p.name for p in path.parent.iterdir()) == ["manifest.lock.by-link"]


def test_who_breaks_a_link_that_was_broken_and_taken_anew_leaves_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(path, dead_process())
    real, new = os.link, {"token": "e" * 32, **asdict(Identity.of_this_process())}

    def others_are_faster(source: Path, target: Path) -> None:
        if "breaking" in target.name:
            held(path).write_text(json.dumps(new))
        real(source, target)

    monkeypatch.setattr(os, "link", others_are_faster)
    with pytest.raises(ManifestUnavailable), by_link(path):
        pass
    assert json.loads(held(path).read_text()) == new


def test_where_there_are_no_hard_links_either_the_file_itself_is_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    with by_link(path), pytest.raises(ManifestUnavailable, match="is held by process"), by_link(path):
        pass
    hold(path, dead_process())
    with by_link(path):
        pass
    assert not held(path).exists()


def test_a_link_made_though_the_answer_was_lost_is_ours(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def answer_lost(source: Path, target: Path) -> None:
        real(source, target)
        raise FileExistsError  # the client asked again, and its first request had been served

    monkeypatch.setattr(os, "link", answer_lost)
    with by_link(path):
        assert held(path).exists()
    assert not held(path).exists()


def test_letting_go_spares_the_link_of_whoever_came_after_a_person_removed_ours(path: Path) -> None:
    with by_link(path):
        hold(path, Identity("node17", "b", 1, 1))
    assert held(path).exists()


@pytest.mark.parametrize(("refusals", "goes"), [(1, True), (4, True), (10**6, False)])
def test_a_link_that_is_not_let_go_at_once_is_let_go_a_moment_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int, goes: bool
) -> None:
    unlink = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        nonlocal refusals
        if self == held(path) and refusals > 0:
            refusals -= 1
            raise OSError(errno.ESTALE, "Stale file handle")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    with (
        contextlib.nullcontext() if goes else pytest.raises(ManifestUnavailable, match="can't be removed"),
        by_link(path),
    ):
        pass
    assert held(path).exists() is not goes


def test_a_journal_works_without_flock(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    said: list[str] = []
    journal = Journal(run, clock=HurriedClock(), native_lock=RefusedFlock, say=said.append)
    journal.create("test")
    journal.append(SaveFailed(1, 1, "why"))
    assert len(Journal(run).read()) == 2
    assert len(said) == 1


def test_flock_alone_says_false_when_time_is_up(path: Path) -> None:
    first, second = Flock(path), Flock(path)
    assert first.acquire(0.0)
    assert not second.acquire(0.0)
    first.release()
    assert second.acquire(0.0)
    second.release()
