"""The file system says no to the store, at every call it could say it to, in every way that disks do."""

from __future__ import annotations

import errno
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointUnavailable
from tests.faulty_fs.disk import REPOSITORY, FaultyDisk
from tests.faulty_fs.fixture import disk as disk  # noqa: PLC0414 fixtures are found by their names here
from tests.faulty_fs.fixture import faulty_disk as faulty_disk  # noqa: PLC0414
from tests.faulty_fs.fixture import need_faulty_disks

OLD = "step-0000000100.a1"
NEW = "step-0000000200.a2"
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
BROKEN_DISK = (errno.EIO, errno.ESTALE)
PATIENCE_S = 120.0


def state(value: float) -> dict[str, Any]:
    tied = torch.full((3, 2), value, dtype=torch.bfloat16)
    large = torch.full((600_000,), value)  # more than one write
    return {"model": {"large": large, "a": tied, "b": tied}, "step": torch.tensor(value), "note": "x"}


class Scene:
    """A run with an old checkpoint on a faulty disk, and a new one to be saved beside it."""

    def __init__(self, disk: FaultyDisk, elsewhere: Path) -> None:
        self.disk = disk
        self.root = disk.path / elsewhere.name
        self.store = Hdf5Store(self.root)
        self.old = self.store.write_part(OLD, rank=0, state=state(1.0), attributes={"step": 100})
        # Equal content makes equal bytes: this is what has to lie there if anything does.
        self.new = Hdf5Store(elsewhere).write_part(NEW, rank=0, state=state(2.0), attributes={"step": 200})
        self.final = disk.folder / elsewhere.name / self.new.file
        self.whole = (elsewhere / self.new.file).read_bytes()

    def save(self) -> PartReceipt:
        return Hdf5Store(self.root).write_part(NEW, rank=0, state=state(2.0), attributes={"step": 200})

    def judge_the_old(self) -> None:
        assert compare_states(self.store.read_part(self.old), state(1.0)) == []

    def judge_the_new(self, *, saved: bool, killed: bool = False) -> None:
        if saved or self.final.exists():
            assert self.final.read_bytes() == self.whole, "under the final name lies something that isn't whole"
        left = [path.name for path in self.final.parent.iterdir()] if self.final.parent.exists() else []
        others = [name for name in left if name != self.final.name]
        assert all(killed and name.startswith(f".rank-00000.h5.{NEW}.") for name in others), others

    def clear(self) -> None:
        self.store.delete(NEW)
        assert not self.final.parent.exists()


@pytest.fixture
def scene(disk: FaultyDisk, tmp_path: Path) -> Scene:
    return Scene(disk, tmp_path / f"run-{secrets.token_hex(4)}")


def refusal_by(action: Callable[[], object]) -> OSError | None:
    """What the file system said, if `action` had to give up. Any other error comes out."""
    try:
        action()
    except CheckpointUnavailable as error:
        cause = error.__cause__
    else:
        return None
    assert isinstance(cause, OSError), "the file system's own word is kept"
    return cause


def refuse_every_call(
    scene: Scene, operation: str, error: int, action: Callable[[], object], after: Callable[[bool], None]
) -> int:
    """Refuse the first call of `operation` that `action` makes, then the second, until it makes no more.

    Returns how often the action failed, each time by the refusal's own errno.
    """
    failed = 0
    nth = 1
    while True:
        # The kernel itself asks again once after ESTALE.
        fault = scene.disk.fail(operation, nth=nth, errno=error, times=2 if error == errno.ESTALE else 1)
        refusal = refusal_by(action)
        fired = scene.disk.fired(fault)
        scene.disk.heal()
        if refusal is not None:
            assert refusal.errno == error, refusal
            failed += 1
        done = refusal is None
        after(done)
        if not fired:
            assert done
            return failed
        nth += 1


@pytest.mark.parametrize("error", [*FULL_DISK, *BROKEN_DISK], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["write", "fsync", "rename", "open", "mkdir", "truncate", "flush", "fsyncdir"])
def test_a_save_that_is_refused_at_any_call_says_why_and_leaves_nothing_or_the_whole(
    scene: Scene, operation: str, error: int
) -> None:
    def after(done: bool) -> None:
        scene.judge_the_new(saved=done)
        # What isn't durable has no name yet; only the name itself may be there and not be durable.
        assert done or operation == "fsyncdir" or not scene.final.exists()
        scene.judge_the_old()
        again = scene.save()
        assert again == scene.new
        scene.judge_the_new(saved=True)
        scene.clear()

    assert refuse_every_call(scene, operation, error, scene.save, after) > 0


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_space_that_can_not_be_reserved_is_no_space_or_no_matter(scene: Scene, error: int) -> None:
    def after(done: bool) -> None:
        scene.judge_the_new(saved=done)
        scene.judge_the_old()
        scene.clear()

    failed = refuse_every_call(scene, "preallocate", error, scene.save, after)
    assert not (failed and error == errno.EOPNOTSUPP)


@pytest.mark.parametrize("error", BROKEN_DISK, ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["unlink", "rmdir", "list", "fsyncdir"])
def test_a_delete_that_is_refused_at_any_call_says_why_and_can_be_repeated(
    scene: Scene, operation: str, error: int
) -> None:
    def delete() -> None:
        scene.store.delete(NEW)

    def after(done: bool) -> None:
        assert not (done and scene.final.exists())
        scene.clear()
        scene.judge_the_old()
        scene.save()

    scene.save()
    assert refuse_every_call(scene, operation, error, delete, after) > 0


@pytest.mark.parametrize("verb", ["read_part", "verify_part"])
@pytest.mark.parametrize("error", [*BROKEN_DISK, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["open", "read", "lookup"])
def test_a_disk_that_does_not_let_us_read_says_nothing_about_the_checkpoint(
    scene: Scene, operation: str, error: int, verb: str
) -> None:
    def read() -> None:
        found = getattr(scene.store, verb)(scene.old)
        assert verb == "verify_part" or compare_states(found, state(1.0)) == []

    nth = 1
    failed = 0
    while True:
        # From the n-th on: after one read that failed the kernel tries a smaller one by itself.
        fault = scene.disk.fail(operation, nth=nth, errno=error, times=0)
        refusal = refusal_by(read)  # and never CheckpointDamaged: that would give it up for good
        fired = scene.disk.fired(fault)
        scene.disk.heal()
        if refusal is not None:
            assert refusal.errno == error, refusal
            failed += 1
        if not fired:
            break
        nth += 1
    assert failed
    scene.judge_the_old()


@pytest.mark.parametrize("operation", ["open", "write"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_o_direct_refused_at_open_or_after_some_writes_is_written_otherwise(
    scene: Scene, operation: str, nth: int
) -> None:
    scene.disk.fail(operation, nth=nth, times=0, errno=errno.EINVAL, direct_only=True)
    assert scene.save() == scene.new
    scene.judge_the_new(saved=True)


@pytest.mark.parametrize("operation", ["open", "read"])
@pytest.mark.parametrize("nth", [1, 2])
def test_o_direct_refused_while_reading_is_read_otherwise(scene: Scene, operation: str, nth: int) -> None:
    scene.disk.fail(operation, nth=nth, times=0, errno=errno.EINVAL, direct_only=True)
    scene.judge_the_old()


@pytest.mark.parametrize("short_bytes", [512, 4096, 1000, 65_537])
def test_writes_that_take_only_a_part_are_gone_on_with(scene: Scene, short_bytes: int) -> None:
    fault = scene.disk.fail("write", times=6, short_bytes=short_bytes)
    assert scene.save() == scene.new
    assert scene.disk.fired(fault)
    scene.judge_the_new(saved=True)


def test_a_disk_that_takes_its_time_with_everything_only_takes_time(scene: Scene) -> None:
    for operation in ("write", "fsync", "rename", "open", "read", "mkdir", "lookup"):
        scene.disk.fail(operation, times=0, delay_s=0.01)
    assert scene.save() == scene.new
    scene.judge_the_old()


def test_folders_that_can_not_be_synced_are_no_reason_to_fail(scene: Scene) -> None:
    scene.disk.fail("fsyncdir", times=0, errno=errno.EINVAL)
    assert scene.save() == scene.new
    scene.judge_the_new(saved=True)


@pytest.mark.parametrize("error", [*FULL_DISK, *BROKEN_DISK], ids=errno.errorcode.get)
def test_a_refusal_that_comes_only_with_fsync_or_close_is_heard(
    tmp_path: Path, request: pytest.FixtureRequest, error: int
) -> None:
    """As on network file systems: they take the bytes first and say later that there was no place for them."""
    need_faulty_disks(request)
    with FaultyDisk(tmp_path, writeback=True) as disk:
        scene = Scene(disk, tmp_path / "elsewhere")
        fault = disk.fail("write", nth=2, times=0, errno=error)
        with pytest.raises(CheckpointUnavailable) as caught:
            scene.save()
        assert disk.fired(fault)
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == error
        disk.heal()
        assert not scene.final.exists()
        scene.judge_the_old()
        assert scene.save() == scene.new


SAVING = """
import sys
from pathlib import Path
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from tests.faults.test_store_on_faulty_disks import NEW, state
print("saving", flush=True)
Hdf5Store(Path(sys.argv[1])).write_part(NEW, rank=0, state=state(2.0), attributes={"step": 200})
"""


@pytest.mark.parametrize(
    ("operation", "ends_well"),
    [("write", False), ("fsync", True), ("rename", False)],
    ids=["write, and is killed there", "fsync, and then goes on", "rename, and is killed there"],
)
def test_a_save_that_hangs_keeps_nobody_from_the_old_checkpoint(scene: Scene, operation: str, ends_well: bool) -> None:
    fault = scene.disk.fail(operation, hang=True)
    command = [sys.executable, "-c", SAVING, str(scene.root)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as saving:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not scene.disk.fired(fault):
                assert saving.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            scene.judge_the_old()
            assert not scene.final.exists()
            if ends_well:
                scene.disk.heal()
                assert saving.wait(PATIENCE_S) == 0
            else:
                saving.send_signal(signal.SIGKILL)
                assert saving.wait(PATIENCE_S) == -signal.SIGKILL
        finally:
            saving.kill()
            scene.disk.heal()
    scene.judge_the_new(saved=ends_well, killed=not ends_well)
    assert scene.save() == scene.new
    scene.clear()
    scene.judge_the_old()


def test_ranks_whose_clients_remember_how_it_was_save_one_checkpoint_together(scene: Scene) -> None:
    """As on NFS: each node knows names for a while, and also that there was nothing under a name."""
    run = scene.root.name
    views = [scene.disk.view(f"node-{rank}", cache_s=60.0) for rank in range(2)]
    for view in views:
        assert not (view / run / "checkpoints" / NEW).exists()
        assert [path.name for path in (view / run / "checkpoints").iterdir()] == [OLD]
    receipts = [
        Hdf5Store(view / run).write_part(NEW, rank=rank, state=state(float(rank)), attributes={})
        for rank, view in enumerate(views)
    ]
    for view in views:
        for rank, receipt in enumerate(receipts):
            loaded = Hdf5Store(view / run).read_part(receipt)
            assert compare_states(loaded, state(float(rank))) == []
