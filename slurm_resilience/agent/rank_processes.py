"""The rank processes of one agent: which they are, what they say, and which of them nobody noticed dying."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from slurm_resilience.agent.process_tree import children, pending_signals, read_process, variables
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.signals.runtime_folder import RankPage, RankPhase, rank_pages


def seen_pages(runtime: Path) -> tuple[RankPage, ...] | None:
    """What the ranks say; None where one page is just being made, or can't be read: look again later."""
    try:
        return tuple(rank_pages(runtime))
    except (OSError, ValueError):
        return None


def forward(name: str, kind: CommandKind, command: int, pages: tuple[RankPage, ...], witness: int) -> list[int]:
    """Send a signal to the rank processes that don't use our library, and to nobody else. Returns who got it.

    Nobody gets it where it is pending in `witness`, a process of the tree that blocks it and that we never signal:
    then Slurm sent it to every process of the step by itself (proctrack/linuxproc), and a second one would be one too
    many.
    """
    if pages and kind is CommandKind.TASK:
        return []  # the command may be a shell around the rank: ending that would help nobody
    number = signal.Signals[name]
    if number in pending_signals(witness):
        return []
    ours = {page.pid for page in pages}
    told = []
    for pid in _rank_pids(kind, command):
        if pid in ours:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            told.append(pid)
    return told


def _rank_pids(kind: CommandKind, command: int) -> list[int]:
    match kind:
        case CommandKind.TASK:
            return [command]
        case CommandKind.TORCHRUN:
            # torchrun may have other children (a resource tracker): only ranks have a LOCAL_RANK
            return [child.pid for child in children(command) if _is_rank(child.pid)]


def _is_rank(pid: int) -> bool:
    return any(variable.startswith(b"LOCAL_RANK=") for variable in variables(pid))


def local_world_size(pages: tuple[RankPage, ...]) -> int | None:
    """How many ranks torchrun has started on this node, as it told one of them; None: none of them can be asked."""
    for page in pages:
        for variable in variables(page.pid):
            name, _, value = variable.partition(b"=")
            if name == b"LOCAL_WORLD_SIZE" and value.isdigit():
                return int(value)
    return None


def lost_rank(kind: CommandKind, command: int, pages: tuple[RankPage, ...]) -> str | None:
    """A rank that is dead while its launcher does nothing about it.

    One that left while the others go on is no loss by itself (rank 0 may evaluate for an hour after the others):
    a healthy torchrun collects its code within a second and judges that. So: its code lies uncollected, or it said
    that it failed.
    """
    if kind is CommandKind.TASK:
        return None  # the command is the rank, and we are its launcher
    for page in pages:
        if page.phase in (RankPhase.STOPPED, RankPhase.FINISHED):
            continue
        process = read_process(page.pid)
        if process is not None and process.state == "Z" and process.parent == command:
            return f"rank {page.rank} (process {page.pid}) died"
        if page.phase is RankPhase.FAILED and (process is None or process.state == "Z"):
            return f"rank {page.rank} (process {page.pid}) failed"
    return None
