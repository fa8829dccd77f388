"""A run that saves for a long time, on a disk that now and then says no: it takes no more room at the end."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointUnavailable, ManifestUnavailable
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    Part,
    SaveFailed,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.sweeper import Sweeper

GENERATIONS = 1000
KEEP_LAST = 3
WARM_AFTER = 300
LOOK_EVERY = 50
SWEEP_EVERY = 5
"""Retention reads the whole journal: after each save it would be all that this test does."""
MORE_MEMORY_BYTES = 48 << 20
"""The journal's lines are in memory while retention is planned; the rest is what the allocator keeps for itself."""


def state(generation: int) -> dict[str, Any]:
    value = float(generation)
    tied = torch.full((16, 16), value, dtype=torch.bfloat16)
    history = [round(value / (1 + step), 6) for step in range(generation // 100)]  # the document grows
    return {"model": {"w": torch.full((3000,), value), "a": tied, "b": tied}, "step": generation, "losses": history}


@dataclass(slots=True)
class Mishaps:
    """The file system refuses a call here and there, in turn another one."""

    patched: pytest.MonkeyPatch
    refused: int = 0
    _in: int = field(default=-1)
    _verb: str = ""

    def install(self) -> None:
        for verb in ("fsync", "replace", "unlink", "pwrite", "pwritev"):
            self._wrap(verb, getattr(os, verb))

    def _wrap(self, verb: str, real: Callable[..., Any]) -> None:
        def refusing(*given: Any, **named: Any) -> Any:
            if verb == self._verb:
                self._in -= 1
                if self._in == 0:
                    self.refused += 1
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*given, **named)

        self.patched.setattr(os, verb, refusing)

    def plan(self, generation: int) -> None:
        """Every seventh generation meets one refusal, each time at another call."""
        verbs = ("fsync", "replace", "unlink", "pwrite", "pwritev")
        turn = generation // 7
        self._verb, self._in = ("", -1) if generation % 7 else (verbs[turn % len(verbs)], 1 + turn // len(verbs) % 5)


@dataclass(frozen=True, slots=True)
class Footprint:
    memory_bytes: int
    descriptors: int
    threads: int
    files: int

    @classmethod
    def now(cls, run: Path) -> Footprint:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return cls(
            memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            threads=threading.active_count(),
            files=sum(1 for path in (run / "checkpoints").rglob("*")),
        )


class Training:
    """What rank 0 does at every save, without a training around it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.journal = Journal(RunDirectory(run))
        self.journal.create("soak")
        self.journal.append(AttemptStarted(1, "local", ("train",), "host"))
        self.store = Hdf5Store(run)
        self.sweeper = Sweeper(self.journal, self.store, attempt=1, policy=Policy(KEEP_LAST))
        self.failed = 0

    def save(self, generation: int) -> None:
        checkpoint = checkpoint_id(generation, 1)
        try:
            receipt = self.store.write_part(checkpoint, rank=0, state=state(generation), attributes={})
            part = Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum)
            reason = SaveReason.PERIODIC
            self.journal.append(CheckpointCommitted(checkpoint, generation, 1, reason, 1, (part,), 0.0), fence=1)
        except (CheckpointUnavailable, ManifestUnavailable) as error:
            self.failed += 1
            self.journal.append(SaveFailed(1, generation, str(error)[:80]), fence=1)
        if generation % SWEEP_EVERY:
            return
        self.sweeper.after_commit()
        if self.sweeper._thread is not None:
            self.sweeper._thread.join()

    def live(self) -> list[CheckpointCommitted]:
        checkpoints = Chain.of(self.journal.read()).checkpoints
        return [each.committed for each in checkpoints if each.state is CheckpointState.LIVE]

    def tidy(self) -> None:
        """As an attempt that starts does: what nobody committed, or was forgotten, goes."""
        named = {committed.checkpoint for committed in self.live()}
        for checkpoint in self.store.found_on_disk():
            if checkpoint not in named:
                self.store.delete(checkpoint)

    def judge(self) -> None:
        for committed in self.live():
            (part,) = committed.parts
            receipt = PartReceipt(part.rank, part.file, part.bytes, part.checksum)
            assert compare_states(self.store.read_part(receipt), state(committed.step)) == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: what lasts is not the question here, and ten thousand fsyncs take their time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.timeout(300)
def test_a_thousand_saves_leave_what_is_kept_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    training = Training(folder / "run")
    mishaps = Mishaps(monkeypatch)
    mishaps.install()
    warm: Footprint | None = None
    for generation in range(1, GENERATIONS + 1):
        mishaps.plan(generation)
        training.save(generation)
        mishaps.plan(1)
        if generation % LOOK_EVERY == 0:
            training.tidy()
            training.judge()
            now = Footprint.now(training.run)
            assert now.files == 2 * len(training.live()), "a folder and a part each, and nothing else"
            assert KEEP_LAST <= len(training.live()) <= KEEP_LAST + 1
            if generation == WARM_AFTER:
                warm = now
            elif warm is not None:
                assert now.memory_bytes <= warm.memory_bytes + MORE_MEMORY_BYTES
                assert now.descriptors <= warm.descriptors
                assert now.threads <= warm.threads
    assert mishaps.refused > 30
    assert training.failed > 20
    assert training.live()[-1].step >= GENERATIONS - 1
