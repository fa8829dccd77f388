"""Whether the run directory is the same for all: nodes that are threads, one of which sees something else."""

import fcntl
import threading
from pathlib import Path

import pytest

from slurm_resilience.preflight.result import Outcome, Problem
from slurm_resilience.preflight.rounds import shared_storage, sharing
from slurm_resilience.preflight.rounds.shared_storage import LookBefore
from tests.unit.preflight.rounds.playing import cards_of, play


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(sharing, "SEEN_S", 0.3)
    monkeypatch.setattr(sharing, "LOCK_S", 100.0)
    monkeypatch.setattr(shared_storage, "LATE_S", 2.0)  # a busy machine may take a second for anything


def elsewhere(tmp_path, *tasks):
    """These nodes have a folder of their own where the others have a shared one."""

    def instead(task, function, assignment):
        if task not in tasks:
            return None
        own = tmp_path / f"own-{task}"
        own.mkdir(exist_ok=True)
        moved = {k: v.replace(str(tmp_path / "run"), str(own)) for k, v in assignment.items() if isinstance(v, str)}
        return getattr(sharing, function)(None, {**assignment, **moved}, lambda _: None)

    return instead


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def test_one_directory_for_all_is_fine_and_left_as_it_was(run):
    played = play(LookBefore(run), cards_of(4))
    assert played.bad == {}
    assert sorted(str(result.node) for result in played.of(Outcome.OK)) == ["n1", "n2", "n3", "n4"]
    assert list(run.iterdir()) == []
    assert {result.finding.measured.get("flock", "ok") for result in played.results} == {"ok"}


def test_a_run_that_is_not_there_yet_is_tried_in_its_nearest_parent(run):
    assert play(LookBefore(run / "a" / "b"), cards_of(3)).bad == {}
    assert list(run.iterdir()) == []


def test_one_node_alone_shares_with_nobody(run):
    assert play(LookBefore(run), cards_of(1)).results == []


def test_a_node_with_another_directory_is_named(run, tmp_path):
    played = play(LookBefore(run), cards_of(4), instead=elsewhere(tmp_path, 1))
    assert list(played.bad) == ["n2"]
    assert f"run directory {run} is not the same on n2: it can't see what n1 wrote" in played.bad["n2"]
    assert played.of(Outcome.FAIL)[0].finding.problem is Problem.NODE


@pytest.mark.parametrize(("count", "node"), [(2, "n2"), (4, None)])
def test_a_directory_that_nobody_shares_is_the_users_problem(run, tmp_path, count, node):
    played = play(LookBefore(run), cards_of(count), instead=elsewhere(tmp_path, *range(1, count)))
    assert list(played.bad) == [node]
    assert "is not on storage that all nodes share" in played.bad[node]
    assert played.of(Outcome.FAIL)[0].finding.problem is Problem.USER
    assert list(run.iterdir()) == []


def test_a_file_of_that_name_with_other_words_is_not_the_same_storage(run):
    def instead(task, function, assignment):
        if task == 1 and function == "join":
            return {"seen": True, "late_s": 0.0, "same": False}
        return None

    assert list(play(LookBefore(run), cards_of(4), instead=instead).bad) == ["n2"]


def test_what_is_seen_late_is_a_warning_with_the_time(run, monkeypatch):
    monkeypatch.setattr(sharing, "SEEN_S", 20.0)

    def instead(task, function, assignment):
        if task == 2 and function == "join":
            return {**sharing.join(None, assignment, lambda _: None), "late_s": 2.4}
        return None

    played = play(LookBefore(run), cards_of(4), instead=instead)
    assert list(played.bad) == ["n3"]
    assert "2.4 s late" in played.bad["n3"]
    assert [result.node for result in played.of(Outcome.WARN)] == ["n3"]


def test_a_first_node_that_doesnt_see_the_others_files_names_whose(run):
    def instead(task, function, assignment):
        if function == "finish":
            found = dict(sharing.finish(None, assignment, lambda _: None))
            return {**found, "late_s": {name: late for name, late in found["late_s"].items() if name != "node-2"}}
        return None

    assert list(play(LookBefore(run), cards_of(4), instead=instead).bad) == ["n3"]


def test_locks_that_dont_exclude_are_a_failure(run, monkeypatch):
    monkeypatch.setattr(sharing, "HOLD_S", 2.0)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    met, contend = threading.Barrier(3), sharing._flock

    def contend_at_once(folder):
        met.wait(60)
        return contend(folder)

    monkeypatch.setattr(sharing, "_flock", contend_at_once)
    played = play(LookBefore(run), cards_of(4))
    assert list(played.bad) == [None]
    assert "don't exclude each other" in played.bad[None]


def test_a_file_system_without_flock_is_fine_as_long_as_it_has_links(run, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    assert play(LookBefore(run), cards_of(3)).bad == {}
    monkeypatch.setattr(sharing.os, "link", refused)
    assert "has neither locks nor hard links" in play(LookBefore(run), cards_of(3)).bad[None]


def test_a_replaced_file_that_stays_the_old_one_is_a_failure(run):
    def instead(task, function, assignment):
        if function == "finish":
            return {**sharing.finish(None, assignment, lambda _: None), "renamed": False}
        return None

    played = play(LookBefore(run), cards_of(3), instead=instead)
    assert "doesn't see that a file" in played.bad[None]


def test_a_first_node_that_cant_write_is_the_check_of_storages_business(run):
    run.rmdir()
    run.write_text("no folder")
    played = play(LookBefore(run), cards_of(3))
    assert played.bad == {}
    assert "see the check of storage" in played.of(Outcome.SKIPPED)[0].finding.sentence


def test_a_node_that_hangs_is_broken_and_the_others_go_on(run):
    def instead(task, function, assignment):
        return {"trouble": "no answer within 12 s, while looking for /run"} if task == 1 else None

    played = play(LookBefore(run), cards_of(4), instead=instead)
    assert list(played.bad) == ["n2"]
    assert [result.node for result in played.of(Outcome.OK)] == ["n1", "n3", "n4"]


def test_a_node_that_is_lost_in_between_spoils_nothing(run):
    cards = cards_of(4)

    def instead(task, function, assignment):
        if function == "begin":
            cards.pop(1, None)

    assert play(LookBefore(run), cards, instead=instead).bad == {}
    assert list(Path(run).iterdir()) == []
