"""Whether cgroups may be used is found out by trying, and said in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.sandbox.cgroup import Unusable, Usable, folders_of, probe, processes_in, remove, thaw


def why(answer: Usable | Unusable) -> str:
    assert isinstance(answer, Unusable)
    return answer.why


def test_an_ordinary_user_may_not(tmp_path: Path) -> None:
    assert "needs root" in why(probe(tmp_path, user_id=1000))


def test_a_freezer_is_used_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "freezer").mkdir()
    assert probe(tmp_path, user_id=0) == Usable(tmp_path)
    assert not list((tmp_path / "freezer").iterdir())


def test_a_machine_without_freezer_is_refused_by_name(tmp_path: Path) -> None:
    assert f"{tmp_path / 'freezer'} is not mounted" in why(probe(tmp_path, user_id=0))


def test_a_tree_of_version_2_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    assert "cgroup v2" in why(probe(tmp_path, user_id=0))


def test_the_folders_of_a_node_are_its_own(tmp_path: Path) -> None:
    for folder in ("freezer/slurm_abn1/uid_0/job_1", "freezer/slurm_abn12", "memory/slurm_abn1"):
        (tmp_path / folder).mkdir(parents=True)
    assert folders_of("abn1", tmp_path) == [tmp_path / "freezer/slurm_abn1", tmp_path / "memory/slurm_abn1"]


def test_everything_frozen_below_is_thawed(tmp_path: Path) -> None:
    state = tmp_path / "job_1" / "step_0" / "freezer.state"
    state.parent.mkdir(parents=True)
    state.write_text("FROZEN")
    thaw(tmp_path)
    assert state.read_text() == "THAWED"


def test_a_tree_is_removed_from_its_leaves(tmp_path: Path) -> None:
    (tmp_path / "top" / "uid_0" / "job_1").mkdir(parents=True)
    remove(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_a_tree_still_in_use_is_given_up_after_the_time(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "tasks").touch()
    remove(tmp_path / "top", timeout_s=0)
    assert (tmp_path / "top").exists()


def test_processes_are_found_in_every_folder_below(tmp_path: Path) -> None:
    deep = tmp_path / "uid_0" / "job_1"
    deep.mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("")
    (deep / "cgroup.procs").write_text(f"{os.getpid()}\n4194305\n")  # the second is beyond the highest pid there can be
    assert [process.pid for process in processes_in(tmp_path)] == [os.getpid()]
