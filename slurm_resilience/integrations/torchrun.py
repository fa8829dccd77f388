"""torchrun inside a tree that the node agent owns: `python -m slurm_resilience.integrations.torchrun …`.

The agent starts us with SIGTERM, SIGUSR1 and SIGUSR2 blocked, so that nobody in the tree hears Slurm. Three of
torchrun's habits don't fit that, and are changed here:

* It handles SIGTERM, SIGHUP and SIGQUIT by ending the ranks. Only SIGINT is left to it: by `--signals-to-handle`
  where this torch's torchrun has that option, else by taking the handlers back once it has set them.
* After a rank's failure it ends the others by SIGTERM and waits 30 s (newer ones: TORCH_ELASTIC_SHUTDOWN_TIMEOUT).
  They block SIGTERM: here it ends them by SIGKILL, after a bounded wait for a rank that is just saving.
* It leaves with 1 whatever happened to the rank. We leave with the code of the rank that failed first.

A signal that is to be handed on to ranks which don't use our library arrives unblocked; torchrun itself lives through
it by a handler that does nothing, which no rank inherits.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from slurm_resilience.process_exit import leave_at_once
from slurm_resilience.signals.runtime_folder import RankPhase, rank_pages

LEFT_TO_TORCHRUN = "SIGINT"
CLOSE_S = 10
"""How long SIGKILL may take: longer only for a rank that waits for a device or a file system."""
SAVING_VARIABLE = "SLURM_RESILIENCE_SAVE_WAIT_S"
SAVING_S = 20.0
_LOOK_S = 0.05
_OTHERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main(arguments: list[str]) -> int:
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import PContext
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    _live_through_forwarded_signals()
    _end_ranks_by_kill(PContext)
    if _knows_signals_to_handle(run.get_args_parser()):
        arguments = [f"--signals-to-handle={LEFT_TO_TORCHRUN}", *arguments]
    else:
        _take_handlers_back(PContext)
    try:
        run.main(arguments)
    except ChildFailedError as failed:
        # Headed as torchrun heads it: whoever reads logs finds the table by that.
        sys.stderr.write(f"{ChildFailedError.__module__}.{ChildFailedError.__qualname__}: {failed}\n")
        _, first = failed.get_first_failure()
        code = int(first.exitcode)
        return 128 - code if code < 0 else code or 1
    return 0


def _nothing(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not inherited through exec."""


def _live_through_forwarded_signals() -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        if number not in blocked:
            signal.signal(number, _nothing)


def _knows_signals_to_handle(parser: argparse.ArgumentParser) -> bool:
    return "--signals-to-handle" in parser.format_help()


def _take_handlers_back(context: Any) -> None:
    """PContext.start() sets handlers for all four signals and can't be told not to; it starts the ranks after that.

    Blocked ones never reach a handler; SIGHUP and SIGQUIT do. The ranks inherit no handler, so after is early enough.
    """
    start = context.start

    @functools.wraps(start)
    def start_without_handlers(self: Any) -> None:
        start(self)
        for number in _OTHERS:
            signal.signal(number, _nothing)

    context.start = start_without_handlers


def _end_ranks_by_kill(context: Any) -> None:
    """PContext.close(death_sig, timeout) is the one place where every version of torchrun ends its ranks."""
    close: Callable[..., None] = context.close

    @functools.wraps(close)
    def close_by_kill(self: Any, *_: Any, **__: Any) -> None:  # whatever signal and time-out it was asked for
        _wait_for_savers(set(self.pids().values()) if _started(self) else set())
        close(self, signal.SIGKILL, CLOSE_S)

    context.close = close_by_kill


def _started(context: Any) -> bool:
    return bool(getattr(context, "subprocess_handlers", None) or getattr(context, "_pc", None))


def _wait_for_savers(ranks: set[int]) -> None:
    """A rank in the middle of a save is worth some seconds: that step may be the one the run goes on from."""
    folder = os.environ.get("SLURM_RESILIENCE_RUNTIME")
    if folder is None or not ranks:
        return
    end_s = time.monotonic() + float(os.environ.get(SAVING_VARIABLE, SAVING_S))
    while time.monotonic() < end_s and any(_is_saving(Path(folder), pid) for pid in ranks):
        time.sleep(_LOOK_S)


def _is_saving(folder: Path, pid: int) -> bool:
    try:
        says = any(page.pid == pid and page.phase is RankPhase.SAVING for page in rank_pages(folder))
        process = Path(f"/proc/{pid}/stat").read_bytes()
        return says and process.rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    # torchrun holds nothing, and taking torch apart takes a processor half a second that a save may need.
    leave_at_once(main(sys.argv[1:]))
