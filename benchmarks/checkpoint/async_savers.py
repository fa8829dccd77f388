"""Saving while the training goes on: ours and other libraries', by one small interface."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks.checkpoint import ours
from benchmarks.checkpoint.machine import sync_all
from benchmarks.checkpoint.peers import optional
from benchmarks.checkpoint.rounds import NotHere
from benchmarks.checkpoint.state import State, flat_state, fresh_like
from slurm_resilience.checkpoint.format.tensor import identity
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.checkpoint.writer.outcome import Written


class Saver(Protocol):
    def begin(self, state: State, name: str) -> Future[float]:
        """Returns when the training may go on. The future has the moment (`time.perf_counter`) of being durable."""

    def before_update(self) -> None:
        """Returns when the state may change."""


class Kept:
    """What savers keep from save to save: as large as the state, so those that can share it. Made when first asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._closing = contextlib.ExitStack()

    @functools.cached_property
    def snapshot(self) -> Snapshot:
        snapshot = Snapshot(rank=0)
        self._closing.callback(snapshot.close)
        return snapshot

    @functools.cached_property
    def writer(self) -> WriterProcess:
        program = [sys.executable, "-m", "benchmarks.checkpoint.writer_program", str(self.root)]
        writer = WriterProcess(self.root, program)
        self._closing.callback(writer.close)
        return writer

    @functools.cached_property
    def stager(self) -> Any:
        """DCP's, in memory that its process can read, which it keeps."""
        try:
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        except ImportError as error:
            raise NotHere("this torch has no such stager") from error
        gpu = torch.cuda.is_available()
        stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=gpu, use_shared_memory=True, use_async_staging=False, use_non_blocking_copy=gpu
            )
        )
        self._closing.callback(stager.close)
        return stager

    @functools.cached_property
    def copy(self) -> list[torch.Tensor]:
        """Warm memory for every tensor, filled by the first to copy."""
        copy: list[torch.Tensor] = []
        self._closing.callback(copy.clear)
        return copy

    def close(self) -> None:
        self._closing.close()


class OursAsync:
    """A snapshot in shared memory, and the writer process. `overlap` copies while the next step computes."""

    def __init__(self, kept: Kept, *, overlap: bool) -> None:
        self._overlap = overlap
        self._snapshot, self._writer = kept.snapshot, kept.writer
        self._copying: Taken | None = None

    def begin(self, state: State, name: str) -> Future[float]:
        self._writer.start()
        overlapped = frozenset(identity(each) for each in flat_state(state).values()) if self._overlap else frozenset()
        taken = self._snapshot.take(name, state, ours.FACTS, overlap=self._overlap, overlapped=overlapped)
        self._writer.submit(taken)
        self._copying = taken if self._overlap else None
        return _in_thread(self._wait)  # waits in a system call: the training's interpreter is not its business

    def before_update(self) -> None:
        taken, self._copying = self._copying, None
        if taken is not None:
            taken.wait()

    def _wait(self) -> float:
        outcome = self._writer.wait(None)
        if isinstance(outcome, Written):
            return time.perf_counter()
        raise RuntimeError(f"not written: {outcome}")


class DcpAsync:
    """torch.distributed.checkpoint.async_save: as it comes; in a process; with a stager of shared memory kept."""

    def __init__(self, kept: Kept, *, process: bool, keeps_memory: bool) -> None:
        self._root = kept.root
        self._process = process
        self._stager = kept.stager if keeps_memory else None
        self._first = True

    def begin(self, state: State, name: str) -> Future[float]:
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save

        kind = AsyncCheckpointerType.PROCESS if self._process else AsyncCheckpointerType.THREAD

        def begin() -> Future[Any]:
            saving: Any = async_save(
                state, checkpoint_id=self._root / name, async_checkpointer_type=kind, async_stager=self._stager
            )
            future: Future[Any] = getattr(saving, "upload_completion", saving)
            return future

        if not (self._process and self._first):
            return _moment_of(begin())
        self._first = False
        with _silent_children():
            moment = _moment_of(begin())
            moment.result()  # the process is started in a thread
        return moment

    def before_update(self) -> None:
        pass


class CloneAndThread:
    """What one writes oneself: a copy of everything, and torch.save in a thread."""

    def __init__(self, kept: Kept) -> None:
        self._root = kept.root

    def begin(self, state: State, name: str) -> Future[float]:
        copy = _clone(state)

        def save() -> float:
            folder = self._root / name
            folder.mkdir()
            torch.save(copy, folder / "state.pt")
            sync_all(folder)
            return time.perf_counter()

        return _in_thread(save)

    def before_update(self) -> None:
        pass


class TorchsnapshotAsync:
    def __init__(self, kept: Kept) -> None:
        self._library = optional("torchsnapshot")
        self._root = kept.root

    def begin(self, state: State, name: str) -> Future[float]:
        folder = self._root / name
        app_state = {"state": self._library.StateDict(**flat_state(state))}
        pending = self._library.Snapshot.async_take(path=str(folder), app_state=app_state)

        def wait() -> float:
            pending.wait()
            sync_all(folder)
            return time.perf_counter()

        return _in_thread(wait)

    def before_update(self) -> None:
        pass


def nvrx_async() -> Saver:
    """Not measured: as of 0.4.1 it can't do without a GPU. Raises NotHere."""
    optional("nvidia_resiliency_ext")
    raise NotHere("it works with GPUs only, and this benchmark's state lies in the host's memory")


class WarmCopy:
    """Every tensor copied into memory that is there already."""

    def __init__(self, kept: Kept, *, threads: int) -> None:
        self._into = kept.copy
        self._threads = threads

    def copy(self, state: State) -> None:
        if not self._into:
            self._into.extend(flat_state(_clone(state)).values())
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        for into, tensor in zip(self._into, flat_state(state).values(), strict=True):
            into.copy_(tensor)
        torch.set_num_threads(before)


@contextlib.contextmanager
def _silent_children() -> Iterator[None]:
    """DCP's process, started in here, would tell of each of its steps."""
    sys.stderr.flush()
    ours = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(nowhere)


def _clone(state: State) -> State:
    copy: State = fresh_like(state)
    for into, tensor in zip(flat_state(copy).values(), flat_state(state).values(), strict=True):
        into.copy_(tensor)
    return copy


def _moment_of(saving: Future[Any]) -> Future[float]:
    moment: Future[float] = Future()

    def done(ended: Future[Any]) -> None:
        error = ended.exception()
        if error is None:
            moment.set_result(time.perf_counter())
        else:
            moment.set_exception(error)

    saving.add_done_callback(done)
    return moment


def _in_thread(work: Callable[[], float]) -> Future[float]:
    moment: Future[float] = Future()

    def run() -> None:
        try:
            moment.set_result(work())
        except BaseException as error:  # noqa: BLE001 a thread has nobody else to tell
            moment.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return moment
