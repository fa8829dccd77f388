"""What preflight reads and writes in the run directory itself. That may hang: nobody waits for it for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from slurm_resilience.errors import ResilienceError
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.preflight.report import Report, write_report

PATIENCE_S = 5.0
_THREAD = "preflight-files"
T = TypeVar("T")


def within(timeout_s: float, action: Callable[[], T]) -> T:
    """What `action` returns or raises. Raises TimeoutError; its thread is left behind then, so that whoever has had
    one must leave by `os._exit`."""
    done: list[T] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            done.append(action())
        except Exception as error:  # noqa: BLE001  # raised again below, in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True, name=_THREAD)
    thread.start()
    thread.join(timeout_s)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    return done[0]


def some_hang() -> bool:
    """Whether a thread still waits for a file system."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


def checkpoint_bytes_of(run: Path) -> int | None:
    """The size of the run's newest checkpoint, all ranks together. None: it has none, or nobody can say."""
    try:
        return within(PATIENCE_S, lambda: _newest_checkpoint(run))
    except (OSError, ResilienceError):
        return None


def _newest_checkpoint(run: Path) -> int | None:
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal

    if not RunDirectory(run).journal.exists():
        return None
    checkpoints = Chain.of(Journal(RunDirectory(run)).read()).checkpoints
    return sum(part.bytes for part in checkpoints[-1].committed.parts) if checkpoints else None


def keep(report: Report, path: Path) -> str | None:
    """Write it there. What hindered that, in a sentence; None: nothing."""
    try:
        within(PATIENCE_S, lambda: write_report(report, path))
    except TimeoutError as error:
        return f"the report could not be written to {path}: {error}"
    except OSError as error:
        return f"the report could not be written to {path}: {error.strerror}"
    return None
