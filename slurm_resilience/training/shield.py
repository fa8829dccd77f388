"""A rank that ends when it should: with its launcher, and without waiting for children that can't hear.

Under srun-resilient a rank and all its children have SIGTERM blocked. Python's way to end daemonic children at exit
(DataLoader workers, pools) is SIGTERM, and then it waits for them for ever.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing.process
import multiprocessing.util
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from slurm_resilience.parent_death import die_with_parent
from slurm_resilience.process_exit import leave_at_once

POLITE_S = 1.0
"""How long daemonic children have at exit before they are killed."""

_LOOK_AGAIN_S = 0.25


def die_with_launcher() -> None:
    """SIGKILL for this process when its parent ends, however that happens. For ranks that have a launcher."""
    if not die_with_parent(os.getppid()):
        sys.stderr.write("slurm-resilience: this rank can't be made to end with its launcher (prctl refused)\n")


@contextlib.contextmanager
def children_shielded() -> Iterator[None]:
    """Processes started inside have the signals of a stop blocked, as under srun-resilient.

    torchrun and some Slurms signal the whole process group: a DataLoader worker would die of it and take the rank
    with it before it has saved.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # what has come meanwhile is delivered now


class ChildReaper:
    """From the moment the interpreter exits, daemonic children have POLITE_S to end; then they are killed.

    A thread that sleeps until then: at exit it may be too late to start one.
    """

    def __init__(self) -> None:
        self._exiting = threading.Event()
        self._thread = threading.Thread(target=self._reap, name="slurm-resilience-reaper", daemon=True)
        self._pid = os.getpid()

    def start(self) -> None:
        self._thread.start()
        # Before all others: a pool's own finalizer (15) already waits for workers that it has "terminated".
        multiprocessing.util.Finalize(None, self._begin, exitpriority=1000)

    def _begin(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child has no such thread and reaps nothing
        if threading.current_thread() is threading.main_thread():
            # torch's handler would raise "DataLoader worker is killed" into the middle of our exit.
            with contextlib.suppress(ValueError, TypeError):
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._exiting.set()
        # The collector's last rounds over what a training has loaded take 0.7 s of a processor (torch 2.13), and free
        # nothing that the end of the process doesn't.
        gc.freeze()

    def _reap(self) -> None:
        self._exiting.wait()
        time.sleep(POLITE_S)
        while True:
            for child in _daemonic_children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(_LOOK_AGAIN_S)


def leave_without_teardown(*, after_exception: int = 1) -> None:
    """From now on this process ends as soon as its exit handlers have run: with 0, or after an unhandled exception with
    `after_exception`.

    What comes behind them (modules, C++ destructors, a GPU's context) takes seconds on a busy node, of the few that a
    stopped training still has, and can abort a rank that is done: gloo's threads are sometimes still joinable
    ("terminate called without an active exception", torch 2.13). For ranks whose state is durable and whose node agent
    judges them by what they have saved; a code given to `sys.exit` later is lost.
    """
    unhandled: list[type[BaseException]] = []
    told = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        unhandled.append(kind)
        told(kind, error, at)

    sys.excepthook = note
    multiprocessing.util.Finalize(
        None, _leave, args=(os.getpid(), unhandled, after_exception), exitpriority=-1000
    )  # the very last


def _leave(pid: int, unhandled: list[type[BaseException]], after_exception: int) -> None:
    if os.getpid() != pid:
        return
    leave_at_once(after_exception if unhandled else 0)


def _daemonic_children() -> list[int]:
    """Not by `active_children()`: that would wait for them behind the main thread's back."""
    children = list(getattr(multiprocessing.process, "_children", ()))
    living = []
    for child in children:
        process = getattr(child, "_popen", None)
        if child.daemon and process is not None and process.returncode is None:
            living.append(int(process.pid))
    return living
