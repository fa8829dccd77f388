"""Copying batches with a few threads, while a watermark says how far it has come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from slurm_resilience.checkpoint.snapshot.batches import Batch
from slurm_resilience.checkpoint.snapshot.front import Front
from slurm_resilience.checkpoint.snapshot.watermark import Watermark

Numbered = tuple[int, Batch]


class Rising:
    """A watermark that several threads raise, each when a batch of its own is done."""

    def __init__(self, watermark: Watermark, front: Front) -> None:
        self._watermark = watermark
        self._front = front
        self._lock = threading.Lock()  # also what makes the copied bytes visible before the number that promises them
        self._spoilt = False

    def begin(self) -> None:
        """What belongs to no batch is there."""
        with self._lock:
            self._watermark.put(self._front.reached)

    def done(self, number: int) -> None:
        with self._lock:
            reached = self._front.done(number)
            if not self._spoilt:
                self._watermark.put(reached)

    def spoil(self) -> None:
        """For good: whatever is still copied makes it no better."""
        with self._lock:
            self._spoilt = True
            self._watermark.spoil()


def copy_all(batches: Sequence[Numbered], rising: Rising, threads: int) -> None:
    """Copy in file order, this thread being one of `threads`. Raises the first error, and then all have stopped."""
    lock = threading.Lock()
    waiting = iter(batches)
    errors: list[BaseException] = []

    def copy_some() -> None:
        try:
            while not errors:
                with lock:
                    following = next(waiting, None)
                if following is None:
                    return
                number, batch = following
                batch.copy()
                rising.done(number)
        except BaseException as error:  # noqa: BLE001 a thread has nobody to raise it to
            errors.append(error)

    helpers = []
    for _ in range(min(threads, len(batches)) - 1):
        helper = threading.Thread(target=copy_some, name="checkpoint-copy")
        with contextlib.suppress(RuntimeError):  # as many as the job's limit allows
            helper.start()
            helpers.append(helper)
    copy_some()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


def started(work: Callable[[], None], name: str) -> threading.Thread | None:
    """`work` in a thread of its own. Where the job's limit allows no more of them it is done at once: None."""
    thread = threading.Thread(target=work, name=name)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread


class Later:
    """Copying that goes on beside the training. An error spoils the snapshot at once, and comes out in `join`."""

    def __init__(self, work: Sequence[Numbered], rising: Rising, threads: int) -> None:
        self._work = work
        self._rising = rising
        self._threads = threads
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = started(self._run, "checkpoint-snapshot")

    def join(self) -> None:
        """Raises what went wrong, each time."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            copy_all(self._work, self._rising, self._threads)
        except BaseException as error:  # noqa: BLE001 a thread has nobody to raise it to
            self._error = error
            self._rising.spoil()
        finally:
            self._work = ()  # and with it the tensors and the memory they went to
