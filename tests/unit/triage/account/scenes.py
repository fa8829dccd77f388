"""Events for tables: what some line said, by whom and when."""

from __future__ import annotations

from dataclasses import replace

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Account
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.story import tell
from slurm_resilience.triage.event import Event, Place, Speaker
from slurm_resilience.triage.known.entry import KnownFailure, Remedy, Retry, Role
from slurm_resilience.triage.reading.log_report import RankFailure

T = 1_800_000_000.0


def entry(
    name: str, role: Role, cause: Cause = Cause.CRASHED, retry: Retry = Retry.UNKNOWN, **more: object
) -> KnownFailure:
    remedy = Remedy(
        "do something about {node}", retry, command="look at {node} {path}", avoid_node=bool(more.get("avoid"))
    )
    return KnownFailure(name, f"it is {name}", name, (name,), cause, role, "made up", remedy)


FULL = entry("python.no-space", Role.ROOT, Cause.STORAGE)
CUDA = entry("cuda.illegal-access", Role.ROOT)
XID = entry("kernel.xid-79", Role.ROOT, retry=Retry.ELSEWHERE, avoid=True)
OOM = entry("kernel.oom-killed", Role.ROOT, Cause.OUT_OF_MEMORY)
SHAPES = entry("gloo.mismatch", Role.ROOT)
TIMED_OUT = entry("gloo.timed-out", Role.WAIT, Cause.HUNG)
PEER = entry("gloo.peer-closed", Role.CASCADE)
STORE = entry("c10d.recv-failed", Role.CASCADE)
ADVICE = entry("cuda.asynchronous", Role.ADVICE, Cause.UNKNOWN)
TIME = entry("slurm.time-limit", Role.ROOT, Cause.TIME_LIMIT)
PREEMPTED = entry("slurm.preempted", Role.ROOT, Cause.PREEMPTED)
NODE = entry("slurm.node-failure", Role.ROOT, Cause.NODE_FAILURE)
TASK = entry("slurm.task-exited", Role.CASCADE)
TOLD = entry("elastic.signalled", Role.CASCADE)
CANCELLED = entry("slurm.cancelled", Role.CASCADE)


def said(known: KnownFailure | None, rank: int | None = None, at: float | None = None, **more: object) -> Event:
    """By a rank whose log is `rank-R.log`; `at`: seconds after T."""
    node = more.get("node", None if rank is None else f"n{rank + 1}")
    assert node is None or isinstance(node, str)
    file = str(more.get("file", "job.out" if rank is None else f"rank-{rank}.log"))
    text = str(more.get("text", "IndexError: list index out of range" if known is None else known.title))
    groups = more.get("groups", ())
    assert isinstance(groups, tuple)
    line = int(str(more.get("line", 10)))
    about = more.get("about", Speaker())
    assert isinstance(about, Speaker)
    time_s = None if at is None else T + at
    return Event(Place(file, line), text, known, Speaker(node=node, rank=rank), about, time_s, groups=groups)


def failed(rank: int, exitcode: int, at: float, *, root: bool = True, message: str | None = None) -> RankFailure:
    """A row of torchrun's table on node n(rank + 1)."""
    signal = {-9: "SIGKILL", -15: "SIGTERM", -6: "SIGABRT", -11: "SIGSEGV"}.get(exitcode)
    place = Place(f"agent-{rank}.log", 40)
    pid = 1000 + rank
    return RankFailure(rank, 0, f"n{rank + 1}", exitcode, signal, pid, T + at, None, message, root, place)


def account(
    *events: Event, tables: tuple[RankFailure, ...] = (), facts: Facts | None = None, **changed: object
) -> Account:
    known = replace(facts or Facts(), **changed)  # type: ignore[arg-type]
    return tell(events, tables, known)
