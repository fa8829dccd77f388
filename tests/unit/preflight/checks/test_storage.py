"""The run directory on good storage, and what refusals mean. Real faults: test_storage_faults.py."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.preflight.checks.storage.complaint import complaint
from slurm_resilience.preflight.checks.storage.directory import storage
from slurm_resilience.preflight.checks.storage.file_system import file_system_of
from slurm_resilience.preflight.checks.storage.place import nearest
from slurm_resilience.preflight.checks.storage.space import judge, storage_space
from slurm_resilience.preflight.checks.storage.speed import judge as judge_speed
from slurm_resilience.preflight.checks.storage.speed import storage_speed
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import GIB, Told, complete, context, findings, only, outcomes, tree

ROOT = Path("/")


@pytest.mark.parametrize("check", [storage, storage_space, storage_speed])
def test_without_a_run_directory_there_is_nothing_to_look_at(tmp_path: Path, check: Any):
    assert only(check, context(tmp_path)).outcome is Outcome.SKIPPED


def test_a_good_folder_takes_all_of_it_and_is_left_as_it_was(tmp_path: Path):
    found = only(storage, context(ROOT, run_dir=tmp_path))
    assert found.outcome is Outcome.OK
    assert found.measured["kind"]
    assert "missing" not in found.measured
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_there_yet_is_tried_where_it_will_be_made(tmp_path: Path):
    found = only(storage, context(ROOT, run_dir=tmp_path / "a" / "b"))
    assert found.outcome is Outcome.OK
    assert found.sentence.endswith(f"{tmp_path / 'a' / 'b'} will be made")
    assert list(tmp_path.iterdir()) == []


def test_each_thing_is_told_before_it_is_done(tmp_path: Path):
    told = Told()
    list(storage(context(ROOT, run_dir=tmp_path), told))
    own = f"{tmp_path}/.preflight-n1-{os.getpid()}"
    for sentence in (
        f"looking at {tmp_path}",
        f"making {own}",
        f"writing to and syncing {own}",
        f"renaming a file over another in {own}",
        f"syncing the names in {own}",
        f"making a hard link in {own}",
        f"locking a file in {own}",
        f"removing {own}",
    ):
        assert sentence in told.sentences


def test_a_file_in_the_way_is_the_users(tmp_path: Path):
    tree(tmp_path, {"run": "a file"})
    found = only(storage, context(ROOT, run_dir=tmp_path / "run"))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)
    found = only(storage, context(ROOT, run_dir=tmp_path / "run" / "below"))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)


def test_a_link_to_nothing_is_not_taken_for_a_folder_to_be_made(tmp_path: Path):
    (tmp_path / "run").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        nearest(tmp_path / "run", Told())
    found = only(storage, context(ROOT, run_dir=tmp_path / "run"))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)


def test_what_a_killed_check_left_goes_a_day_later_and_nothing_else(tmp_path: Path):
    old, young, other = (tmp_path / name for name in (".preflight-n2-77", ".preflight-n3-78", ".preflight-notes"))
    for path in (old, young, other):
        tree(path, {"one": "x"})
    days_ago = time.time() - 2 * 86400
    for path in (old, other):
        os.utime(path, (days_ago, days_ago))

    only(storage, context(ROOT, run_dir=tmp_path))

    assert sorted(tmp_path.iterdir()) == [young, other]


def test_a_folder_left_by_a_dead_check_with_our_number_is_no_refusal(tmp_path: Path):
    tree(tmp_path, {f".preflight-n1-{os.getpid()}/one": "x"})
    assert only(storage, context(ROOT, run_dir=tmp_path)).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("code", "problem", "words"),
    [
        (errno.EROFS, Problem.NODE, "read-only"),
        (errno.EIO, Problem.NODE, "fails"),
        (errno.ESTALE, Problem.NODE, "forgotten"),
        (errno.ENOTCONN, Problem.NODE, "dead"),
        (errno.ENOSPC, Problem.USER, "full"),
        (errno.EDQUOT, Problem.USER, "quota"),
        (errno.EACCES, Problem.USER, "you may not"),
        (errno.EPERM, Problem.USER, "you may not"),
        (errno.ENOTDIR, Problem.USER, "is a file"),
        (errno.EBADMSG, Problem.NODE, "Bad message"),
    ],
)
def test_each_refusal_is_a_sentence_with_whose_problem_it_is(code: int, problem: Problem, words: str):
    found = complaint(OSError(code, os.strerror(code)), "/scratch/x can't be written to")
    complete(found)
    assert (found.outcome, found.problem) == (Outcome.FAIL, problem)
    assert found.sentence.startswith("/scratch/x can't be written to: ")
    assert words in found.sentence
    assert found.measured["errno"] == errno.errorcode[code]


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /scratch rw,nosuid - nfs4 fs1:/export/scratch rw,vers=4.2
31 30 0:41 / /scratch/with\\040space ro - lustre 10.0.0.1@o2ib:/work rw
32 22 0:42 / /scratch rw - autofs systemd-1 rw
33 22 0:43 /sub /data rw - tmpfs tmpfs ro
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind", "source", "read_only"),
    [
        ("/home/u", "ext4", "/dev/vda", False),
        ("/scratch/with space/run", "lustre", "10.0.0.1@o2ib:/work", True),
        ("/scratch/x", "autofs", "systemd-1", False),  # the last one there lies on top
        ("/scratchy", "ext4", "/dev/vda", False),
        ("/data", "tmpfs", "tmpfs", True),
    ],
)
def test_which_file_system_a_path_is_on(tmp_path: Path, path: str, kind: str, source: str, read_only: bool):
    found = file_system_of(Path(path), tree(tmp_path, {"proc/self/mountinfo": MOUNTS}))
    assert found is not None
    assert (found.kind, found.source, found.read_only) == (kind, source, read_only)


def test_where_no_mounts_are_told_the_kind_is_unknown(tmp_path: Path):
    assert file_system_of(tmp_path, tmp_path) is None


ROOM = Room(100 * GIB, 10**6)


@pytest.mark.parametrize(
    ("room", "checkpoint", "live", "outcome"),
    [
        (ROOM, 10 * GIB, [], []),
        (ROOM, 33 * GIB, [], []),  # three at once
        (ROOM, 34 * GIB, [], ["warn"]),
        (ROOM, 101 * GIB, [], ["fail"]),
        (ROOM, 60 * GIB, [60 * GIB, 60 * GIB], []),  # two are there already: one more, and the oldest goes
        (Room(100 * GIB, 10**6, 50 * GIB), 60 * GIB, [], ["fail"]),
        (Room(100 * GIB, 11), 1 * GIB, [], ["fail"]),
        (Room(100 * GIB, None), 1 * GIB, [], []),
        (ROOM, None, [], []),
        (Room(GIB - 1, 10**6), None, [], ["warn"]),
        (Room(100 * GIB, 999), None, [], ["warn"]),
    ],
)
def test_room_for_the_checkpoints_to_come(room: Room, checkpoint: int | None, live: list[int], outcome: list[str]):
    found = judge(room, Path("/scratch"), live, checkpoint_bytes=checkpoint, checkpoints=3, files=12)
    assert outcomes(found) == outcome
    assert all(each.problem is Problem.USER and each.sentence.count("/scratch") for each in found)


def test_space_is_asked_for_where_the_run_will_be(tmp_path: Path):
    tree(tmp_path, {"run/checkpoints/step-0000000005.a1/rank-0.h5": "x" * 1000})
    found = only(storage_space, context(ROOT, run_dir=tmp_path / "run", checkpoint_bytes=1000), ask=lambda _: ROOM)
    assert found.outcome is Outcome.OK
    assert found.sentence == f"100 GiB free at {tmp_path / 'run'}: enough for 3 checkpoints"
    assert found.measured["checkpoint_bytes"] == 1000
    assert only(storage_space, context(ROOT, run_dir=tmp_path / "no" / "run")).outcome in (Outcome.OK, Outcome.WARN)


def test_speed_is_measured_and_no_number_is_too_slow(tmp_path: Path):
    found = only(storage_speed, context(ROOT, run_dir=tmp_path))
    assert found.outcome is Outcome.OK
    assert found.measured["write_bytes_per_s"] > 0
    assert found.measured["fsync_s"] > 0
    assert found.measured["read_bytes_per_s"] > 0
    assert isinstance(found.measured["read_past_cache"], bool)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [
        ([], 1.0, []),
        ([100.0, 100.0], 1.0, []),  # two are no custom
        ([100.0, 90.0, 110.0], 50.0, []),
        ([100.0, 90.0, 110.0], 49.0, ["warn"]),
        ([100.0, 90.0, 110.0, "x", None], 49.0, ["warn"]),
        ([10.0, 100.0, 10.0], 49.0, []),
    ],
)
def test_a_node_is_held_against_what_it_did_before(before: list[Any], now: float, outcome: list[str]):
    assert outcomes(judge_speed({"write_bytes_per_s": now}, before, Path("/scratch"))) == outcome


def test_what_was_measured_before_comes_from_the_baseline(tmp_path: Path):
    fast = {"storage-speed": {"write_bytes_per_s": [1e15, 1e15, 1e15]}}
    (found,) = findings(storage_speed, context(ROOT, run_dir=tmp_path, baseline=fast))
    assert found.outcome is Outcome.WARN
    assert found.measured["write_bytes_per_s"] > 0
