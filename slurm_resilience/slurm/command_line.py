"""Slurm by its commands: works on every version, from every account.

Answers are read from `squeue` fields that no user can write into (a job may be called `x JobState=FAILED`), each with a
width of its own; nothing is searched for in free text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, PartitionRecord, SlurmConfiguration

_FIELDS = (
    ("StateCompact", 20),
    ("State", 40),
    ("Reason", 120),
    ("RestartCnt", 20),
    ("Requeue", 20),
    ("BatchFlag", 20),
    ("StartTime", 30),
    ("EndTime", 30),
    ("PreemptTime", 30),
    ("Partition", 80),
    ("PriorityLong", 20),
    ("exit_code", 20),
    ("BatchHost", 120),
    ("NodeList", 2000),
)
_SILENCE = (
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "connection timed out",
    "unexpected message received",  # what a dead controller makes of `scontrol requeue` (field note P8)
    "zero bytes were transmitted",
    "communication connection failure",
    "communication shutdown",
    "slurm backup controller in standby mode",
    "message receive failure",
    "send/recv operation",
    "no route to host",
)
_NOT_KNOWN = ("invalid job id",)
_COMPLETING_COMPACT = "CG"
_WAITING = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
_ALIVE = ("CONFIGURING", "RESIZING", "SIGNALING", "STOPPED")
"""What squeue may say instead of RUNNING: the job has its nodes."""

Runner = Callable[..., Completed]


class CommandLineSlurm:
    """A SlurmClient (see client.py) by squeue and scontrol."""

    def __init__(
        self, *, environment: Mapping[str, str] | None = None, timeout_s: float = 25.0, runner: Runner = run
    ) -> None:
        inherited = os.environ if environment is None else environment
        # The user's own formats would change what squeue prints; the times must not depend on SLURM_TIME_FORMAT.
        self._environment = {
            name: value
            for name, value in inherited.items()
            if not name.startswith(("SQUEUE_", "SCONTROL_")) and name != "SLURM_TIME_FORMAT"
        } | {"LC_ALL": "C"}
        self._timeout_s = timeout_s
        self._runner = runner

    def job(self, job: JobRef) -> JobRecord | None:
        columns = ",".join(f"{name}:{width}" for name, width in _FIELDS)
        argv = ["squeue", "--noheader", "--states=all", "--jobs", job, "--Format", columns]
        done = self._ask(argv, may_be_unknown=True)
        lines = [line for line in done.out.splitlines() if line.strip()]
        if not lines:
            return None
        return _record(job, lines)

    def configuration(self) -> SlurmConfiguration:
        text = self._ask(["scontrol", "show", "config"]).out
        values = {
            key.strip(): value.strip()
            for key, equals, value in (line.partition("=") for line in text.splitlines())
            if equals and not _is_indented(key)
        }

        def seconds(name: str) -> int | None:
            found = re.match(r"(\d+)", values.get(name, ""))
            return int(found[1]) if found else None

        kill_wait_s = seconds("KillWait")
        if kill_wait_s is None:
            raise SlurmUnparsable("`scontrol show config` names no KillWait")
        exits = values.get("RequeueExit", "")
        return SlurmConfiguration(
            version=values.get("SLURM_VERSION", "unknown"),
            cluster=values.get("ClusterName", "unknown"),
            kill_wait_s=kill_wait_s,
            job_requeue=values.get("JobRequeue", "1") == "1",
            preempt_mode=values.get("PreemptMode", "OFF"),
            proctrack=values.get("ProctrackType", "unknown"),
            over_time_limit_s=None if (minutes := seconds("OverTimeLimit")) is None else 60 * minutes,
            requeue_exit=_exit_codes(exits),
            max_batch_requeue=seconds("MaxBatchRequeue"),
        )

    def partition(self, name: str) -> PartitionRecord:
        text = self._ask(["scontrol", "--oneliner", "show", "partition", name]).out
        found = re.search(r"\bGraceTime=(\d+)\b", text)
        if found is None:
            raise SlurmUnparsable(f"`scontrol show partition {name}` names no GraceTime")
        return PartitionRecord(name, int(found[1]), "OFF", None, None)

    def requeue(self, job: JobRef) -> None:
        self._ask(["scontrol", "requeue", job])

    def _ask(self, argv: Sequence[str], *, may_be_unknown: bool = False) -> Completed:
        try:
            done = self._runner(argv, timeout_s=self._timeout_s, env=self._environment)
        except CommandTimedOut as error:
            raise SlurmUnavailable(str(error)) from error
        except CommandMissing as error:
            raise SlurmUnavailable(f"{error}: Slurm can't be asked from this host") from error
        if done.code == 0:
            return done
        said = f"{done.err}\n{done.out}".lower()
        if any(words in said for words in _SILENCE):
            raise SlurmUnavailable(f"Slurm's controller does not answer: {done.complaint}")
        if may_be_unknown and any(words in said for words in _NOT_KNOWN):
            return Completed(done.argv, 0, "", done.err)
        raise SlurmRejected(f"Slurm refused `{' '.join(argv)}`: {done.complaint}")


def _is_indented(key: str) -> bool:
    return key.startswith(" ")


def _exit_codes(text: str) -> tuple[int, ...]:
    """`85,90-92` as numbers; `(null)` is none."""
    codes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit():
            codes.extend(range(int(first), int(last if dash and last.isdigit() else first) + 1))
    return tuple(codes)


def _record(job: JobRef, lines: list[str]) -> JobRecord:
    line = lines[-1]
    values: dict[str, str] = {}
    at = 0
    for name, width in _FIELDS:
        values[name] = line[at : at + width].strip()
        at += width
    word = values["State"].split()[0] if values["State"] else ""
    completing = values["StateCompact"] == _COMPLETING_COMPACT or word == "COMPLETING"
    restarts = values["RestartCnt"]
    if not restarts.isdigit():
        raise SlurmUnparsable(f"squeue's answer about job {job} has no restart count: {line.strip()[:200]!r}")
    state = _state(word)
    exit_code, exit_signal = _exit(values["exit_code"])
    return JobRecord(
        job=job,
        state=state,
        completing=completing,
        held=values["PriorityLong"] == "0" and state is JobState.PENDING,
        reason=values["Reason"],
        restarts=int(restarts),
        requeue=values["Requeue"] in ("1", "YES", "yes"),
        batch=values["BatchFlag"] in ("1", "YES", "yes"),
        start_s=_time(values["StartTime"]),
        end_s=_time(values["EndTime"]),
        preempted_s=_time(values["PreemptTime"]),
        partition=values["Partition"],
        nodes=values["NodeList"],
        batch_host=values["BatchHost"],
        exit_code=exit_code,
        exit_signal=exit_signal,
    )


def _state(word: str) -> JobState:
    if word in _ALIVE:
        return JobState.RUNNING
    try:
        return JobState(word)
    except ValueError:
        return JobState.PENDING if word in _WAITING else JobState.UNKNOWN


def _time(text: str) -> float | None:
    """Local time as Slurm prints it; None for N/A, NONE, Unknown."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _exit(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal. squeue prints the status of wait(2) as a number (22.05: 768 for a 3), scontrol `3:0`."""
    code, colon, number = text.partition(":")
    if colon and code.isdigit() and number.isdigit():
        return int(code), int(number)
    if text.isdigit():
        return int(text) >> 8, int(text) & 0x7F
    return None, None
