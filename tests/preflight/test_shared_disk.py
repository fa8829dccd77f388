"""The rounds of shared storage on a real file system of several clients, with the faults that such ones have."""

import tempfile
import threading
from pathlib import Path

import pytest

from slurm_resilience.preflight.result import Outcome
from slurm_resilience.preflight.rounds import shared_storage, sharing
from slurm_resilience.preflight.rounds.shared_storage import LookBefore
from tests.faulty_fs.disk import FaultyDisk
from tests.faulty_fs.fixture import need_faulty_disks
from tests.unit.preflight.rounds.playing import cards_of, play


@pytest.fixture(autouse=True)
def _needed(request):
    need_faulty_disks(request)


@pytest.fixture(autouse=True)
def _busy(monkeypatch):
    """What is late here is late by much: the machine may take seconds for anything."""
    monkeypatch.setattr(shared_storage, "LATE_S", 4.0)
    monkeypatch.setattr(sharing, "SEEN_S", 60.0)


@pytest.fixture
def below():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def through(disk, views):
    """Each node looks through its own client's view; the answers of others are in the first one's words."""

    def instead(task, function, assignment):
        if task not in views:
            return None
        moved = {k: v.replace(str(disk.path), str(views[task])) for k, v in assignment.items() if isinstance(v, str)}
        return getattr(sharing, function)(None, {**assignment, **moved}, lambda _: None)

    return instead


def test_several_clients_of_one_file_system_see_the_same(below):
    with FaultyDisk(below) as disk:
        views = {task: disk.view(f"n{task + 1}", cache_s=0.0) for task in (1, 2)}
        played = play(LookBefore(disk.path), cards_of(3), instead=through(disk, views))
        assert played.bad == {}
        assert list(disk.folder.iterdir()) == []


def test_a_client_that_remembers_what_was_not_there_is_late(below):
    with FaultyDisk(below) as disk:
        views = {1: disk.view("n2", cache_s=9.0), 2: disk.view("n3", cache_s=0.0)}
        played = play(LookBefore(disk.path), cards_of(3), instead=through(disk, views))
        assert played.of(Outcome.FAIL, Outcome.BROKEN) == []
        assert list(played.bad) == ["n2"]
        assert "n2 and n1 see each other's files in" in played.bad["n2"]


def test_locks_that_each_client_keeps_to_itself_are_found(below, monkeypatch):
    monkeypatch.setattr(sharing, "HOLD_S", 2.0)
    met, contend = threading.Barrier(2), sharing._flock

    def contend_at_once(folder):
        met.wait(60)
        return contend(folder)

    monkeypatch.setattr(sharing, "_flock", contend_at_once)
    with FaultyDisk(below, shared_locks=False) as disk:
        views = {task: disk.view(f"n{task + 1}", cache_s=0.0) for task in (1, 2)}
        played = play(LookBefore(disk.path), cards_of(3), instead=through(disk, views))
        assert "don't exclude each other" in played.bad[None]


@pytest.mark.parametrize("errno", [28, 30, 122])
def test_a_client_that_cant_write_leaves_it_to_the_check_of_storage(below, errno):
    with FaultyDisk(below) as disk:
        disk.fail("open", times=0, errno=errno, where="node-1")
        played = play(LookBefore(disk.path), cards_of(3))
        assert played.bad == {}
        assert [result.node for result in played.of(Outcome.SKIPPED)] == ["n2"]
