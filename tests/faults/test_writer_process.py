"""A rank and its writer as the two processes they are, and what is left when one of them, or both, are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer import client
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.checkpoint.writer.outcome import Gone, Refused, Written
from slurm_resilience.process_identity import started_ticks

ROOT = Path(__file__).parents[2]
PART = "rank-00000.h5"
LONG_S = 200.0


def _state(value: float) -> dict[str, Any]:
    return {"model": {str(row): torch.full((150_000,), value + row) for row in range(4)}, "value": value}


class Scene:
    def __init__(self, run: Path) -> None:
        self.run = run
        self.store = Hdf5Store(run)
        (run / "finished").mkdir(parents=True)

    def writer(self, slowness: str = "0") -> WriterProcess:
        program = [sys.executable, "-m", "tests.faults.writer_program", str(self.run), slowness]
        return WriterProcess(self.run, program)

    def finished(self, checkpoint: str) -> PartReceipt | None:
        with contextlib.suppress(FileNotFoundError):
            return PartReceipt(**json.loads((self.run / "finished" / f"{checkpoint}.json").read_text()))
        return None

    def files(self, checkpoint: str) -> list[str]:
        folder = self.run / "checkpoints" / checkpoint
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for patience in ("_LAST_WAIT_S", "_REAPED_S"):  # a rank has little time; a busy machine takes some
        monkeypatch.setattr(client, patience, LONG_S)
    return Scene(tmp_path / "run")


@pytest.fixture
def snapshot():
    made = Snapshot(rank=0, threads=2)
    yield made
    made.close()


@pytest.fixture
def writer(scene):
    made = scene.writer()
    made.start()
    yield made
    made.close()


def _until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < end_s, "it never came true"
        time.sleep(0.005)


def _is_gone(pid: int) -> bool:
    return started_ticks(pid) is None


def test_what_the_state_becomes_after_the_snapshot_is_not_what_is_written(scene, snapshot, writer):
    for step in range(3):
        state = _state(step)
        checkpoint = f"step-{step}.a1"
        writer.submit(snapshot.take(checkpoint, state, {"step": step}, context={"step": step}))
        for tensor in state["model"].values():
            tensor.data.fill_(-1)
        outcome = writer.wait(LONG_S)
        assert isinstance(outcome, Written)
        assert compare_states(scene.store.read_part(outcome.receipt), _state(step)) == []
        assert scene.finished(checkpoint) == outcome.receipt
        assert (scene.files(checkpoint), writer.poll()) == ([PART], None)
    assert (scene.run / "busy").read_text() == "False"


def test_a_state_of_another_shape_has_another_memory_and_the_old_is_given_back(scene, snapshot, writer):
    shapes = [_state(0), {"small": torch.ones(10)}, {"large": torch.arange(3_000_000)}, _state(0)]
    for step, state in enumerate(shapes):
        taken = snapshot.take(f"step-{step}.a1", state, {})
        writer.submit(taken)
        outcome = writer.wait(LONG_S)
        assert isinstance(outcome, Written)
        assert compare_states(scene.store.read_part(outcome.receipt), state) == []
        mapped = Path(f"/proc/{writer.pid}/smaps").read_text().split("memfd:slurm-resilience (deleted)\n")[1:]
        resident = [int(line.split()[1]) for each in mapped for line in each.splitlines() if line.startswith("Rss:")]
        assert len(mapped) == 1
        assert resident[0] * 1024 <= taken.arena.size_bytes


def test_the_writer_loads_nothing_heavy_stands_back_and_is_deaf_to_what_ends_a_job(scene, snapshot, writer):
    _until((scene.run / "loaded").exists)
    _until(lambda: os.getpriority(os.PRIO_PROCESS, writer.pid) == 19)
    assert (scene.run / "loaded").read_text() == ""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
        os.kill(writer.pid, number)
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    assert isinstance(writer.wait(LONG_S), Written)
    anonymous = next(
        int(line.split()[1])
        for line in Path(f"/proc/{writer.pid}/status").read_text().splitlines()
        if line.startswith("RssAnon")
    )
    assert anonymous < 30 * 1024


def test_signals_are_heard_here_as_before(scene):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    writer = scene.writer()
    writer.start()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    writer.close()


def test_one_job_at_a_time_and_none_without_a_writer(scene, snapshot):
    writer = scene.writer("stuck")
    taken = snapshot.take("step-1.a1", _state(1), {})
    with pytest.raises(ValueError, match="start it first"):
        writer.submit(taken)
    assert (writer.pid, writer.poll(), writer.wait(LONG_S)) == (0, None, None)
    writer.start()
    pid = writer.pid
    writer.start()
    assert writer.pid == pid
    writer.submit(taken)
    with pytest.raises(ValueError, match="still being written"):
        writer.submit(taken)
    assert (writer.poll(), writer.wait(0.01)) == (None, None)
    os.kill(pid, signal.SIGKILL)
    assert isinstance(writer.wait(LONG_S), Gone)


def test_what_finishing_raises_comes_back_and_the_next_job_works(scene, snapshot, writer):
    writer.submit(snapshot.take("step-1.a1", _state(1), {}, context={"fail": True}))
    outcome = writer.wait(LONG_S)
    assert isinstance(outcome, Refused)
    assert outcome.why.endswith("is written, but not finished: told to fail")
    writer.submit(snapshot.take("step-2.a1", _state(2), {}))
    assert isinstance(writer.wait(LONG_S), Written)


def test_a_refusal_of_the_file_system_comes_back_with_its_number(scene, snapshot, writer):
    (scene.run / "checkpoints").write_text("in the way")
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    outcome = writer.wait(LONG_S)
    assert isinstance(outcome, Refused)
    assert outcome.errno is not None


def test_a_killed_writer_is_noticed_leaves_nothing_half_and_is_replaced(scene, snapshot):
    writer = scene.writer("stuck")
    writer.start()
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    _until(lambda: any(name.endswith(".tmp") for name in scene.files("step-1.a1")))
    with pytest.raises(ValueError, match="still being written"):
        snapshot.take("step-2.a1", _state(2), {})
    os.kill(writer.pid, signal.SIGKILL)
    outcome = writer.wait(LONG_S)
    assert outcome == Gone(f"the checkpoint writer of {scene.run} was killed by SIGKILL")
    assert PART not in scene.files("step-1.a1")

    replaced = scene.writer()
    replaced.start()
    replaced.submit(snapshot.take("step-2.a1", _state(2), {}))
    assert isinstance(replaced.wait(LONG_S), Written)
    replaced.close()


def test_a_writer_that_died_idle_is_noticed_and_started_anew(scene, snapshot, writer):
    os.kill(writer.pid, signal.SIGKILL)
    _until(lambda: isinstance(writer.poll(), Gone))
    assert (writer.pid, writer.poll()) == (0, None)
    writer.start()
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    assert isinstance(writer.wait(LONG_S), Written)


def test_a_job_given_to_a_writer_that_is_dead_comes_to_the_same(scene, snapshot, writer):
    pid = writer.pid
    os.kill(pid, signal.SIGKILL)
    _until(lambda: _is_gone(pid))
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    assert isinstance(writer.wait(LONG_S), Gone)
    snapshot.take("step-2.a1", _state(2), {})  # the memory is ours again


def test_closing_lets_the_last_job_be_done(scene, snapshot):
    writer = scene.writer()
    writer.start()
    pid = writer.pid
    writer.submit(snapshot.take("step-1.a1", _state(1), {}))
    writer.close()
    writer.close()
    assert _is_gone(pid)
    receipt = scene.finished("step-1.a1")
    assert receipt is not None
    assert compare_states(scene.store.read_part(receipt), _state(1)) == []


@contextlib.contextmanager
def _rank(life: Callable[[Callable[[str], None]], None]) -> Iterator[tuple[int, Callable[[], str]]]:
    """A forked process that lives `life`, in which it may say words; its number, and how to hear the next word."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads that a fork loses
        pid = os.fork()
    if pid == 0:
        try:
            torch.set_num_threads(1)  # a forked process has lost OpenMP's other threads
            life(lambda word: (os.write(writing, f"{word}\n".encode()), None)[1])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as words:
        try:
            yield pid, lambda: words.readline().strip()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("slowness", ["0", "0.05"])
def test_a_rank_killed_right_after_its_snapshot_has_its_part_written_and_finished(scene, slowness):
    def life(say: Callable[[str], None]) -> None:
        writer = scene.writer(slowness)
        writer.start()
        writer.submit(Snapshot(rank=0, threads=1).take("step-1.a1", _state(1), {}))
        say(str(writer.pid))
        time.sleep(LONG_S)

    with _rank(life) as (pid, hear):
        writer_pid = int(hear())
        os.kill(pid, signal.SIGKILL)
    _until(lambda: _is_gone(writer_pid))
    receipt = scene.finished("step-1.a1")
    assert receipt is not None
    assert compare_states(scene.store.read_part(receipt), _state(1)) == []
    assert scene.files("step-1.a1") == [PART]
    assert (scene.run / "busy").read_text() == "False"


@pytest.mark.parametrize("with_a_child", [False, True], ids=["alone", "with a child that holds the socket"])
def test_a_rank_killed_before_its_snapshot_is_whole_leaves_nothing_and_no_writer(scene, with_a_child):
    def life(say: Callable[[str], None]) -> None:
        writer = scene.writer()
        writer.start()
        taken = Snapshot(rank=0, threads=1).take("step-1.a1", _state(1), {})
        taken.watermark.put(taken.job.image.file_bytes - 1)  # still copying
        writer.submit(taken)
        if with_a_child and os.fork() == 0:  # a data loader's worker
            time.sleep(3)
            os._exit(0)
        _until(lambda: any(name.endswith(".tmp") for name in scene.files("step-1.a1")))
        say(str(writer.pid))
        time.sleep(LONG_S)

    with _rank(life) as (pid, hear):
        writer_pid = int(hear())
        os.kill(pid, signal.SIGKILL)
    _until(lambda: _is_gone(writer_pid))
    assert (scene.files("step-1.a1"), scene.finished("step-1.a1")) == ([], None)


def test_both_killed_at_any_instant_leave_nothing_or_the_whole_part_under_its_name(scene, tmp_path):
    whole = Hdf5Store(tmp_path / "reference")
    (tmp_path / "reference").mkdir()
    expected = {}
    for step in range(4):
        receipt = whole.write_part(f"step-{step}.a1", rank=0, state=_state(step), attributes={})
        expected[f"step-{step}.a1"] = (receipt, whole.path_of(receipt).read_bytes())

    def life(say: Callable[[str], None]) -> None:
        snapshot = Snapshot(rank=0, threads=1)
        writer = scene.writer("0.002")
        writer.start()
        for step in range(4):
            writer.submit(snapshot.take(f"step-{step}.a1", _state(step), {}))
            writer.wait(LONG_S)
            if step == 0:  # from here on it is warm, and takes about as long every time
                say(str(writer.pid))
        say("all")

    chance = random.Random(7)
    life_s = LONG_S
    seen = {"nothing": 0, "whole": 0}
    for number in range(26):
        with _rank(life) as (pid, hear):
            writer_pid = int(hear())
            began_s = time.monotonic()
            if number == 0:
                hear()
                life_s = time.monotonic() - began_s
            else:
                time.sleep(chance.uniform(0, life_s))
            for victim in chance.sample([pid, writer_pid], 2):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        _until(lambda gone=writer_pid: _is_gone(gone))
        for checkpoint, (receipt, content) in expected.items():
            final = scene.run / receipt.file
            seen["whole" if final.exists() else "nothing"] += 1
            assert not final.exists() or final.read_bytes() == content
            finished = scene.finished(checkpoint)
            assert finished in (None, receipt)
            assert finished is None or final.exists()
            scene.store.delete(checkpoint)
            (scene.run / "finished" / f"{checkpoint}.json").unlink(missing_ok=True)
            assert scene.files(checkpoint) == []
    assert min(seen.values()) > 0, "the instants were not those of saves"
