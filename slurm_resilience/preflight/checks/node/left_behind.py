"""Check `leftovers`: nothing of an earlier job of this user is in the way of the next one. Nothing is removed."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.processes import Process, job_of, opened_by, processes
from slurm_resilience.preflight.checks.reading import text_of
from slurm_resilience.preflight.checks.summary import counted, listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, warn
from slurm_resilience.process_identity import Identity, Liveness, liveness
from slurm_resilience.size import size_text

_GPU = re.compile(r"/dev/nvidia\d+$")
_OF_PROCESS = re.compile(r"(?:torch|psm2_shm|sem\.mp|pym)[-_](\d+)[-_].*")
"""Names in /dev/shm that tell who made them: torch's hold the pid."""
_TELLTALE_BYTES = 64 << 20
"""Less than that is in nobody's way. Ours."""
_LISTENING = "0A"
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Left:
    path: Path
    bytes: int


def leftovers(context: Context, tell: Tell, alive: Callable[[Identity], Liveness] = liveness) -> Iterable[Finding]:
    root, own_job = context.root, context.environment.get("SLURM_JOB_ID")
    tell("looking at your processes")
    own = [each for each in processes(root) if each.user == os.getuid() and not each.of_the_kernel]
    strangers = [] if own_job is None else [each for each in own if job_of(root, each.pid) != own_job]
    problems = list(_of_processes(root, strangers, context.environment))
    tell("looking at your files in /dev/shm")
    left = list(_left_in_memory(root, {each.pid for each in own}, alive))
    left_bytes = sum(each.bytes for each in left)
    if left_bytes >= _TELLTALE_BYTES:
        names = listed(each.path for each in left)
        text = f"{size_text(left_bytes)} of memory are held by what dead processes of yours left in /dev/shm: {names}"
        problems.append(warn(Problem.USER, text, f"rm -r {' '.join(str(each.path) for each in left[:3])}"))
    tell("looking at your files in TMPDIR")
    folders = _old_folders(Path(context.environment.get("TMPDIR") or root / "tmp"), own)
    fine = "nothing of earlier jobs is in the way"
    if folders:
        fine += f"; {counted(folders, 'old torchelastic_ folder')} of yours can go"
    facts = {"left_bytes": left_bytes, "processes_of_other_jobs": len(strangers), "old_folders": folders}
    return summed_up(problems, fine, facts)


def _of_processes(root: Path, strangers: Iterable[Process], environment: Mapping[str, str]) -> Iterator[Finding]:
    port = first_number(environment, "MASTER_PORT")
    wanted = None if port is None else _listener(root, port)
    for each in strangers:
        opened = opened_by(root, each.pid)
        job = job_of(root, each.pid)
        what = f"process {each.pid} ({each.name}) of yours" + (f", of job {job}," if job else ", of no job,")
        remedy = f"scancel {job}, if it isn't needed" if job else f"kill {each.pid} on that node, if it isn't needed"
        gpus = sorted({path for path in opened if _GPU.search(path)})
        if gpus:
            yield warn(Problem.USER, f"{what} has {listed(gpus)} open", remedy)
        if wanted is not None and f"socket:[{wanted}]" in opened:
            yield warn(Problem.USER, f"{what} listens on MASTER_PORT, {port}: the ranks can't meet there", remedy)


def _listener(root: Path, port: int) -> str | None:
    """The inode of the socket that listens on `port` here."""
    for name in ("tcp", "tcp6"):
        for line in (text_of(root / "proc" / "net" / name) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                return fields[9]
    return None


def _left_in_memory(root: Path, living: set[int], alive: Callable[[Identity], Liveness]) -> Iterator[Left]:
    """Only where the name or the content says whose it is, and that one is gone."""
    folder = root / "dev" / "shm"
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if status.st_uid != os.getuid():
                    continue
                named = _OF_PROCESS.fullmatch(path.name)
                if named and int(named[1]) not in living:
                    yield Left(path, status.st_blocks * 512)
                elif _of_dead_agent(path, alive):
                    yield Left(path, sum(each.lstat().st_blocks * 512 for each in path.iterdir()))


def _of_dead_agent(path: Path, alive: Callable[[Identity], Liveness]) -> bool:
    """A runtime folder of ours: it says who made it."""
    if not path.name.lstrip(".").startswith(f"slurm-resilience-{os.getuid()}-"):
        return False
    try:
        owner = Identity(**json.loads((path / "owner.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return False
    return alive(owner) is Liveness.GONE


def _old_folders(folder: Path, own: Iterable[Process]) -> int:
    """Of torchrun, which leaves its logs behind: those that were there long before any process that lives."""
    oldest_process_s = min((_started_s(each) for each in own), default=0.0)
    count = 0
    with contextlib.suppress(OSError):
        for path in folder.glob("torchelastic_*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                count += status.st_uid == os.getuid() and status.st_mtime < oldest_process_s - _DAY_S
    return count


def _started_s(process: Process) -> float:
    try:
        return Path(f"/proc/{process.pid}").stat().st_ctime
    except OSError:
        return 0.0
