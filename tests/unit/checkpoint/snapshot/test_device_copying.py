"""The host's side of copies from a GPU, with a pretended one: tests/gpu has the same on a real one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
import torch

from slurm_resilience.checkpoint.snapshot import device_copying
from slurm_resilience.checkpoint.snapshot.batches import ChangedMeanwhile, Copy, batches_of
from slurm_resilience.checkpoint.snapshot.copying import Rising
from slurm_resilience.checkpoint.snapshot.device_copying import DeviceCopying, runtimes_in
from slurm_resilience.checkpoint.snapshot.front import Front
from slurm_resilience.checkpoint.snapshot.watermark import SnapshotSpoilt, Watermark

BYTES = 16


class Event:
    """Comes when the test says so."""

    made: list[Event]

    def __init__(self, *, blocking: bool) -> None:
        assert blocking, "a host that spins takes a processor from the training"
        self.came = threading.Event()
        Event.made.append(self)

    def record(self, stream: Stream) -> None:
        stream.did.append("record")

    def synchronize(self) -> None:
        assert self.came.wait(100)


class Stream:
    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        self.did: list[str] = []
        self.waits_for: list[Event] = []

    def wait_stream(self, other: Stream) -> None:
        self.did.append("wait for the training")

    def wait_event(self, event: Event) -> None:
        self.waits_for.append(event)


class Scene:
    def __init__(self) -> None:
        self.sources = [torch.full((4,), float(row)) for row in range(3)]
        self.image = torch.zeros(12)
        self.mark = Watermark.make()
        self.side, self.training = Stream(), Stream()
        copies = [
            Copy(str(row), row * BYTES, self.image[row * 4 : row * 4 + 4], source, guarded=True)
            for row, source in enumerate(self.sources)
        ]
        batches = batches_of(copies, BYTES)
        rising = Rising(self.mark, Front([batch.start for batch in batches], 3 * BYTES))
        self.copying = DeviceCopying(self.side, rising)  # type: ignore[arg-type]
        self.copying.enqueue(list(enumerate(batches)))


@pytest.fixture
def scene(monkeypatch) -> Iterator[Scene]:
    Event.made = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    training = Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: training)
    made = Scene()
    made.training = training
    yield made
    for event in Event.made:
        event.came.set()
    with contextlib.suppress(ChangedMeanwhile):
        made.copying.join()
    made.mark.close()


def test_copies_stand_behind_what_the_training_enqueued_before(scene):
    assert scene.side.did == ["wait for the training", "record", "record", "record"]
    assert scene.image.tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4


def test_the_watermark_rises_as_copies_come_and_not_before(scene):
    scene.copying.follow()
    assert scene.mark.reached() == 0
    for event in Event.made:
        event.came.set()
    scene.copying.join()
    assert scene.mark.reached() == 3 * BYTES


def test_once_agreed_the_training_may_change_tensors_while_the_host_still_waits(scene):
    scene.copying.follow()
    scene.copying.agree()
    assert scene.training.waits_for == [Event.made[-1]]
    scene.sources[2].add_(1)
    for event in Event.made:
        event.came.set()
    scene.copying.join()
    assert scene.mark.reached() == 3 * BYTES


def test_a_change_before_agreeing_is_refused_when_asked(scene):
    scene.copying.follow()
    scene.sources[2].add_(1)
    with pytest.raises(ChangedMeanwhile, match="2"):
        scene.copying.agree()


def test_a_change_that_nobody_asked_for_spoils_when_the_copy_has_come(scene):
    scene.copying.follow()
    scene.sources[0].add_(1)
    for event in Event.made:
        event.came.set()
    with pytest.raises(ChangedMeanwhile, match="0"):
        scene.copying.join()
    with pytest.raises(SnapshotSpoilt):
        scene.mark.reached()
    with pytest.raises(ChangedMeanwhile, match="0"):
        scene.copying.agree()


def test_a_tensor_may_change_once_its_copy_has_come(scene):
    Event.made[0].came.set()
    finishing = threading.Thread(target=scene.copying.finish)
    finishing.start()
    while scene.mark.reached() < BYTES:
        pass
    scene.sources[0].add_(1)
    scene.copying.agree()
    for event in Event.made:
        event.came.set()
    finishing.join()
    assert scene.mark.reached() == 3 * BYTES


MAPS = """\
7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0
7f1c10000000-7f1c10080000 r-xp 00000000 fe:00 42                         /site packages/nvidia/lib/libcudart.so.12
7f1c10080000-7f1c10090000 r--p 00080000 fe:00 42                         /site packages/nvidia/lib/libcudart.so.12
7f1c20000000-7f1c20080000 r-xp 00000000 fe:00 43                         /usr/lib/libcudart-9335f6a2.so.12
7f1c30000000-7f1c30080000 r-xp 00000000 fe:00 44                         /usr/lib/libcuda.so.1
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
"""


def test_every_loaded_runtime_of_cuda_is_found():
    assert runtimes_in(MAPS) == ["/site packages/nvidia/lib/libcudart.so.12", "/usr/lib/libcudart-9335f6a2.so.12"]


@pytest.mark.parametrize(("answer", "forgotten"), [(0, 0), (2, 1)])
def test_a_refusal_to_pin_is_not_left_for_the_trainings_next_kernel(monkeypatch, answer, forgotten):
    class Runtime:
        def cudaHostRegister(self, address, size_bytes, flags):  # noqa: N802 as CUDA calls it
            return answer

        def cudaHostUnregister(self, address):  # noqa: N802 as CUDA calls it
            return answer

    done = []
    monkeypatch.setattr(device_copying, "_runtime", Runtime)
    monkeypatch.setattr(device_copying, "_forget_refusal", lambda: done.append(1))
    assert device_copying.pin(4096, 4096) is (answer == 0)
    assert len(done) == forgotten
    device_copying.unpin(4096)
    assert len(done) == 2 * forgotten


def test_where_no_runtime_is_loaded_there_is_nothing_to_forget():
    device_copying._forget_refusal()
