"""One job, with refusals injected and the rank dying: what is answered, and what lies there afterwards."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.disk.image import Image, Region
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.snapshot.watermark import Watermark
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.execution import PAUSES_S, SnapshotLost, execute
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.outcome import Refused, Written

IMAGE = Image(file_bytes=4096 + 100, head_bytes=1000, checksums_offset=16, regions=(Region(0, 4096, 100),))
JOB = WriteJob("step-1.a1", 2, "checkpoints/step-1.a1/rank-00002.h5", IMAGE, {"commit": True})


class FakeClock:
    def __init__(self, each_sleep: Callable[[int], None] = lambda number: None) -> None:
        self.slept_s: list[float] = []
        self._each_sleep = each_sleep

    def now_s(self) -> float:
        return self.monotonic_s()

    def monotonic_s(self) -> float:
        return sum(self.slept_s)

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self._each_sleep(len(self.slept_s))


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.arena = Arena.make(IMAGE.file_bytes)
        self.arena.memory[4096:4196] = bytes(range(100))
        self.watermark = Watermark.make()
        self.watermark.put(IMAGE.file_bytes)
        self.clock = FakeClock()
        self.finished: list[tuple[WriteJob, PartReceipt]] = []
        self.refusals: list[str] = []
        self.gone = False

    def execute(self) -> Written | Refused:
        return execute(
            JOB,
            self.arena,
            self.watermark,
            self.root,
            finish=lambda job, receipt: self.finished.append((job, receipt)),
            refused=lambda job, why: self.refusals.append(why),
            rank_is_gone=lambda: self.gone,
            clock=self.clock,
        )

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    made.arena.close()
    made.watermark.close()


def _refuse(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    real = StagedFile.publish
    left = [times]

    def publish(file: StagedFile) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(StagedFile, "publish", publish)


def test_a_whole_snapshot_is_written_and_finished(scene):
    answer = scene.execute()
    content = (scene.root / JOB.file).read_bytes()
    head = xxhash.xxh3_128(content[:1000]).hexdigest()
    receipt = PartReceipt(rank=2, file=JOB.file, bytes=4196, checksum=f"xxh3-128:{head}:1000")
    assert answer == Written(receipt, 0.0)
    assert content[16:32] == xxhash.xxh3_128(bytes(range(100))).digest()
    assert content[4096:] == bytes(range(100))
    assert scene.finished == [(JOB, receipt)]
    assert scene.files() == [JOB.file]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN])
def test_a_refusal_that_passes_is_tried_again_with_growing_pauses(scene, monkeypatch, number):
    _refuse(monkeypatch, number, times=3)
    assert isinstance(scene.execute(), Written)
    assert tuple(scene.clock.slept_s) == PAUSES_S
    assert scene.files() == [JOB.file]


def test_a_refusal_that_lasts_is_answered_with_its_number_and_nothing_is_left(scene, monkeypatch):
    _refuse(monkeypatch, errno.ENOSPC, times=4)
    answer = scene.execute()
    assert answer == Refused(errno.ENOSPC, f"{scene.root / JOB.file} can't be written: No space left on device")
    assert (scene.files(), scene.finished) == ([], [])
    assert scene.refusals == [answer.why]


def test_a_refusal_that_will_not_pass_is_answered_at_once(scene, monkeypatch):
    _refuse(monkeypatch, errno.EACCES, times=1)
    answer = scene.execute()
    assert isinstance(answer, Refused)
    assert (answer.errno, scene.clock.slept_s) == (errno.EACCES, [])


def test_a_run_directory_that_is_not_mounted_is_not_made_anew(scene):
    scene.root = scene.root / "unmounted"
    answer = scene.execute()
    assert isinstance(answer, Refused)
    assert answer.errno == errno.ENOENT
    assert not scene.root.exists()


def test_the_writer_waits_for_the_snapshot(scene):
    scene.watermark.put(0)
    scene.clock = FakeClock(lambda number: scene.watermark.put(IMAGE.file_bytes) if number == 50 else None)
    assert isinstance(scene.execute(), Written)
    assert len(scene.clock.slept_s) == 50


def test_a_snapshot_that_its_rank_left_unfinished_is_given_up(scene):
    scene.watermark.put(4096)
    scene.gone = True
    with pytest.raises(SnapshotLost):
        scene.execute()
    assert (scene.files(), scene.finished) == ([], [])


def test_a_rank_that_died_behind_its_last_word_is_believed(scene, monkeypatch):
    scene.watermark.put(0)

    def die_after_the_last_word() -> bool:
        scene.watermark.put(IMAGE.file_bytes)
        return True

    answer = execute(
        JOB,
        scene.arena,
        scene.watermark,
        scene.root,
        finish=lambda job, receipt: None,
        refused=lambda job, why: None,
        rank_is_gone=die_after_the_last_word,
        clock=scene.clock,
    )
    assert isinstance(answer, Written)


def test_a_spoilt_snapshot_is_refused_and_leaves_nothing(scene):
    scene.watermark.put(0)
    scene.clock = FakeClock(lambda number: scene.watermark.spoil() if number == 3 else None)
    answer = scene.execute()
    assert answer == Refused(None, "the snapshot was given up before it was whole")
    assert (scene.files(), scene.finished) == ([], [])


@pytest.mark.parametrize(("error", "number"), [(OSError(errno.EIO, "no"), errno.EIO), (RuntimeError("no"), None)])
def test_what_finishing_raises_is_a_refusal(scene, error, number):
    def fail(job: WriteJob, receipt: PartReceipt) -> None:
        raise error

    answer = execute(
        JOB,
        scene.arena,
        scene.watermark,
        scene.root,
        finish=fail,
        refused=lambda job, why: None,
        rank_is_gone=lambda: False,
        clock=scene.clock,
    )
    assert isinstance(answer, Refused)
    assert answer.errno == number
    assert "is written, but not finished: " in answer.why


def test_an_image_larger_than_its_arena_is_refused(scene):
    small = Arena.make(4096)
    answer = execute(
        JOB,
        small,
        scene.watermark,
        scene.root,
        finish=lambda job, receipt: None,
        refused=lambda job, why: None,
        rank_is_gone=lambda: False,
        clock=scene.clock,
    )
    small.close()
    assert isinstance(answer, Refused)
    assert scene.files() == []
