"""squeue's columns, each with a width of its own, read as records of jobs.

Measured on 22.05.8: a width counts bytes, and squeue prints newlines and tabs of a comment as they are. So the comment,
the one column here that users can write into, is the last, and it is narrower than the others together: a line that is
long enough to be a record is one, whatever a comment holds.
"""

from __future__ import annotations

from datetime import datetime

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.fixed_lines import fixed_and_free
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState

_FIELDS = (
    ("JobArrayID", 60),
    ("StateCompact", 20),
    ("State", 40),
    ("Reason", 200),
    ("RestartCnt", 20),
    ("Requeue", 20),
    ("BatchFlag", 20),
    ("StartTime", 30),
    ("EndTime", 30),
    ("PreemptTime", 30),
    ("Partition", 800),
    ("PriorityLong", 20),
    ("exit_code", 20),
    ("BatchHost", 200),
    ("QOS", 120),
    ("Dependency", 1000),
    ("NodeList", 4000),
)
_COMMENT_BYTES = 1100  # Slurm takes no comment of more than 1024
_MAY_BE_CUT = ("Reason", "Dependency")
"""Only ever shown or searched; where they are cut, the text ends in `…`."""

FORMAT = ",".join(f"{name}:{width}" for name, width in (*_FIELDS, ("Comment", _COMMENT_BYTES)))
_RECORD = sum(width for _, width in _FIELDS)

_COMPLETING_COMPACT = "CG"
_WAITING = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_ALIVE = ("CONFIGURING", "RESIZING", "SIGNALING", "STOPPED", "EXPEDITING", "POWER_UP_NODE")
"""What squeue may say instead of RUNNING: the job has its nodes."""
_NOTHING = ("(null)", "N/A", "n/a")


def read_records(answer: str) -> tuple[JobRecord, ...]:
    """The jobs in squeue's answer to FORMAT."""
    records = fixed_and_free(answer, _RECORD, no_record="squeue's answer begins with no record of a job")
    return tuple(_record(fixed, comment) for fixed, comment in records)


def _record(fixed: str, comment: str) -> JobRecord:
    if not fixed.isascii():
        raise SlurmUnparsable(f"squeue's columns are not where they should be: {fixed.strip()[:200]!r}")
    values = _values(fixed)
    job = values["JobArrayID"]
    word = values["State"].split()[0] if values["State"] else ""
    completing = values["StateCompact"] == _COMPLETING_COMPACT or word == "COMPLETING"
    restarts = values["RestartCnt"]
    if not job or not restarts.isdigit():
        raise SlurmUnparsable(f"squeue's answer about job {job} has no restart count: {fixed.strip()[:200]!r}")
    state = state_of(word)
    exit_code, exit_signal = exit_of(values["exit_code"])
    said = comment.strip()
    return JobRecord(
        job=JobRef(job),
        state=state,
        completing=completing,
        held=values["PriorityLong"] == "0" and state is JobState.PENDING,
        reason=values["Reason"],
        restarts=int(restarts),
        requeue=_yes(values["Requeue"]),
        batch=_yes(values["BatchFlag"]),
        start_s=seconds_of(values["StartTime"]),
        end_s=seconds_of(values["EndTime"]),
        preempted_s=seconds_of(values["PreemptTime"]),
        partition=values["Partition"],
        nodes=_or_nothing(values["NodeList"]),
        batch_host=_or_nothing(values["BatchHost"]),
        exit_code=exit_code,
        exit_signal=exit_signal,
        qos=_or_nothing(values["QOS"]),
        dependency=_or_nothing(values["Dependency"]),
        comment="" if said == "(null)" else said,
    )


def _values(fixed: str) -> dict[str, str]:
    values: dict[str, str] = {}
    at = 0
    for name, width in _FIELDS:
        value = fixed[at : at + width]
        at += width
        if value[-1] != " ":  # it fills its column: the rest may be cut off
            if name not in _MAY_BE_CUT:
                raise SlurmUnparsable(f"squeue's column {name} is too long to be read: {value[:200]!r}")
            value = f"{value}…"
        values[name] = value.strip()
    return values


def _yes(text: str) -> bool:
    return text in ("1", "YES", "yes")


def _or_nothing(text: str) -> str:
    return "" if text in _NOTHING else text


def state_of(word: str) -> JobState:
    """The base state that a word of squeue's stands for."""
    if word in _ALIVE:
        return JobState.RUNNING
    try:
        return JobState(word)
    except ValueError:
        return JobState.PENDING if word in _WAITING else JobState.UNKNOWN


def seconds_of(text: str) -> float | None:
    """Local time as Slurm prints it; None for N/A, NONE, Unknown."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def exit_of(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal. squeue prints the status of wait(2) as a number (22.05: 768 for a 3), scontrol `3:0`."""
    code, colon, number = text.partition(":")
    if colon and code.isdigit() and number.isdigit():
        return int(code), int(number)
    if text.isdigit():
        return int(text) >> 8, int(text) & 0x7F
    return None, None
