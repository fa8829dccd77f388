"""Copying from GPUs: enqueued on streams of its own, so that neither the training nor the host waits for it.

The copies see what was enqueued before them. What is enqueued after `agree` sees that they are done. In between nothing
may be changed, and torch's counters tell (on the host) whether it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from slurm_resilience.checkpoint.snapshot.batches import Batch
from slurm_resilience.checkpoint.snapshot.copying import Numbered, Rising, started

_PORTABLE = 1  # cudaHostRegisterPortable: pinned for every device's context


def pin(address: int, size_bytes: int) -> bool:
    """Lock memory so that GPUs copy into it by themselves. False where that is refused: copies then cost the host."""
    pinned = int(_runtime().cudaHostRegister(address, size_bytes, _PORTABLE)) == 0
    if not pinned:
        _forget_refusal()
    return pinned


def unpin(address: int) -> None:
    if int(_runtime().cudaHostUnregister(address)) != 0:
        _forget_refusal()


def _forget_refusal() -> None:
    """CUDA keeps a refusal for who asks for it, which is torch, at the training's next kernel: that would be the end of
    it. torch has no way to ask, so it is asked for in whatever runtime is loaded."""
    for library in runtimes_in(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(library).cudaGetLastError()


def runtimes_in(maps: str) -> list[str]:
    """The files of CUDA's runtime that a process has mapped, by its `/proc/self/maps`."""
    paths = (line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split(maxsplit=5)) == 6)
    return sorted({path for path in paths if PurePosixPath(path).name.startswith("libcudart")})


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


@dataclass(slots=True)
class _Enqueued:
    number: int
    batch: Batch
    event: torch.cuda.Event


class DeviceCopying:
    """Batches of one GPU, on one stream, in order."""

    def __init__(self, stream: torch.cuda.Stream, rising: Rising) -> None:
        self._stream = stream
        self._rising = rising
        self._lock = threading.Lock()
        self._enqueued: deque[_Enqueued] = deque()  # not yet seen to be done; holds on to their tensors
        self._last_event: torch.cuda.Event | None = None
        self._agreed = False
        self._error: BaseException | None = None
        self._follower: threading.Thread | None = None

    def enqueue(self, batches: Sequence[Numbered]) -> None:
        """Behind everything that the current stream was given so far."""
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream), torch.no_grad():
            for number, batch in batches:
                for target, source in zip(batch.targets, batch.sources, strict=True):
                    # Resolved here: torch conjugates an asynchronous copy on the host, before it has come.
                    target.copy_(source.resolve_conj().resolve_neg(), non_blocking=True)
                event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # the host sleeps meanwhile
                event.record(self._stream)
                self._enqueued.append(_Enqueued(number, batch, event))
                self._last_event = event

    def finish(self) -> None:
        """Wait, on the host, for what is enqueued. Raises ChangedMeanwhile."""
        while self._enqueued:
            following = self._enqueued[0]
            following.event.synchronize()
            with self._lock:
                if not self._agreed:
                    following.batch.check()
                self._enqueued.popleft()
            self._rising.done(following.number)

    def follow(self) -> None:
        """`finish` in a thread of its own."""
        self._follower = started(self._run, "checkpoint-device")

    def agree(self) -> None:
        """From here on the current stream may change the tensors: it waits for the copies, the host doesn't.

        Raises ChangedMeanwhile where one was changed before.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            for enqueued in self._enqueued:
                enqueued.batch.check()
            self._agreed = True
        if self._last_event is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._last_event)

    def join(self) -> None:
        """Until the host has it all. Raises what went wrong."""
        if self._follower is not None:
            self._follower.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self.finish()
        except BaseException as error:  # noqa: BLE001 a thread has nobody to raise it to
            with self._lock:
                self._error = error
            self._rising.spoil()
