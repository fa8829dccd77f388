"""The processes of one job on this machine, by what they are, and when each kind was gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from slurm_resilience.sandbox.process import Process, environment_of, processes_with

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

LOOK_S = 0.01
KINDS = ("worker", "rank", "torchrun", "agent", "srun", "supervisor")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _is_torchrun(words: str) -> bool:
    return "slurm_resilience.integrations.torchrun" in words or "torch.distributed.run" in words


def kind_of(words: str, parents_words: str, *, has_rank: bool) -> str | None:
    """By its command line and its parent's; None for what is none of KINDS (shells, guardians, slurmstepd)."""
    if words.startswith("srun "):
        return "srun"
    if "slurm_resilience.agent" in words:
        return "agent"
    if "slurm_resilience.cli.srun_resilient" in words:
        return "supervisor"
    if _is_torchrun(words):
        return "torchrun"
    if has_rank:
        return "rank" if _is_torchrun(parents_words) else "worker"
    return None


def processes_of(job: str) -> dict[str, list[Process]]:
    """Every process of the job that has a kind."""
    found: dict[str, list[Process]] = {kind: [] for kind in KINDS}
    for process in processes_with(lambda _, environment: environment.get("SLURM_JOB_ID") == job):
        words, parents_words = command_line(process.pid), command_line(_parent(process.pid))
        kind = kind_of(words, parents_words, has_rank="RANK" in environment_of(process.pid))
        if kind is not None:
            found[kind].append(process)
    return found


class Farewells:
    """Notes when the last process of each kind was gone, on the wall's clock. `with` watches."""

    def __init__(self, processes: Mapping[str, list[Process]]) -> None:
        self.gone_s: dict[str, float] = {}
        self._left = {kind: list(found) for kind, found in processes.items() if found}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def all_gone(self) -> bool:
        return not self._left

    def _watch(self) -> None:
        while self._left and not self._over.is_set():
            for kind in list(self._left):
                self._left[kind] = [process for process in self._left[kind] if process.alive()]
                if not self._left[kind]:
                    self.gone_s[kind] = time.time()
                    del self._left[kind]
            time.sleep(LOOK_S)
