"""squeue's JSON, read as records of jobs.

Columns are asked first: every version has them, and they cost less (JSON brings every core of every job). JSON carries
what columns can't: a list of nodes or partitions longer than its column, an answer of a version whose columns are
others, and (24.11) the end of the grace of a job that has no time limit.

Schemas v0.0.38 (Slurm 22.05) to v0.0.45 (26.05). A number is plain or `{set, infinite, number}`; a state a word or a
list of a base state and flags; an exit code the status of wait(2) or a structure. Of another schema nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.columns import exit_of, state_of
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState

_SCHEMAS = range(38, 46)
_ENDLESS = 0xFFFFFFFD
"""From here on 32 bits of a time are Slurm's words for `none` and `for ever`."""


@dataclass(frozen=True, slots=True)
class Listed:
    record: JobRecord
    user_id: int
    """squeue's own filters are not to be trusted beside --json (22.05)."""


def schema_option(release: tuple[int, int]) -> str:
    """`--json`, held to a schema where there is one that all newer versions we know have: 24.11 to 26.05."""
    return "--json=v0.0.42" if release >= (24, 11) else "--json"


def read_jobs(answer: str) -> tuple[Listed, ...]:
    """Array elements one by one, those that wait in one record too."""
    try:
        told = json.loads(answer)
    except ValueError as error:
        raise SlurmUnparsable(f"squeue's JSON is none: {answer.strip()[:200]!r}") from error
    _known_schema(told)
    if told.get("errors"):
        raise SlurmUnparsable(f"squeue's JSON tells of an error: {str(told['errors'])[:200]}")
    jobs = _of(told, "jobs", list)
    return tuple(listed for job in jobs for listed in _listed(job))


def _known_schema(told: Any) -> None:
    if not isinstance(told, dict):
        raise SlurmUnparsable("squeue's JSON is no object")
    meta = told.get("meta") or {}
    plugin = meta.get("plugin") or {}
    said = str(plugin.get("data_parser") or plugin.get("type") or "")
    found = re.search(r"v0\.0\.(\d+)", said)
    if found is None or int(found[1]) not in _SCHEMAS:
        raise SlurmUnparsable(f"squeue's JSON has a schema we don't know: {said or 'it names none'}")


def _listed(job: Any) -> Iterator[Listed]:
    state, completing = _state(_of(job, "job_state", (str, list)))
    exit_code, exit_signal = _exit(job.get("exit_code"))
    user_id = _of(job, "user_id", int)
    for ref in _refs(job):
        record = JobRecord(
            job=ref,
            state=state,
            completing=completing,
            held=state is JobState.PENDING and _number(job, "priority") == 0,
            reason=_of(job, "state_reason", str),
            restarts=_of(job, "restart_cnt", int),
            requeue=_of(job, "requeue", bool),
            batch=_of(job, "batch_flag", bool),
            start_s=_time(job, "start_time"),
            end_s=_time(job, "end_time"),
            preempted_s=_time(job, "preempt_time"),
            partition=_of(job, "partition", str),
            nodes=_nodes(job),
            batch_host=job.get("batch_host") or "",
            exit_code=exit_code,
            exit_signal=exit_signal,
            qos=job.get("qos") or "",
            dependency=job.get("dependency") or "",
            comment=_of(job, "comment", str),
        )
        yield Listed(record, user_id)


def _of(job: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    value = job.get(name) if isinstance(job, dict) else None
    if not isinstance(value, kind):
        raise SlurmUnparsable(f"{name} in squeue's JSON is {value!r}")
    return value


def _number(job: dict[str, Any], name: str) -> int | None:
    return _plain(job.get(name), name)


def _plain(value: Any, name: str) -> int | None:
    """None: it isn't set, or has no bound. 0 is a number like others."""
    if isinstance(value, dict) and isinstance(value.get("number"), (int, float)):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise SlurmUnparsable(f"{name} in squeue's JSON is no number: {value!r}")


def _time(job: dict[str, Any], name: str) -> float | None:
    number = _number(job, name)
    return None if not number or number >= _ENDLESS else float(number)


def _state(told: str | list[Any]) -> tuple[JobState, bool]:
    """As squeue's columns say it: what is completing has no base state of its own any more."""
    words = [told] if isinstance(told, str) else [str(word) for word in told]
    if "COMPLETING" in words:
        return JobState.UNKNOWN, True
    if len(words) == 1:
        return state_of(words[0]), False
    bases = [word for word in words if word in JobState.__members__]
    return (state_of(bases[0]) if len(bases) == 1 else JobState.UNKNOWN), False


def _exit(told: Any) -> tuple[int | None, int | None]:
    if not isinstance(told, dict):
        return exit_of(str(told))
    code = _plain(told.get("return_code"), "return_code")
    signal = told.get("signal") or {}
    number = _plain(signal.get("id", signal.get("signal_id")), "signal")
    return code or 0, number or 0


def _nodes(job: dict[str, Any]) -> str:
    nodes = job.get("nodes")
    if isinstance(nodes, dict):
        nodes = nodes.get("list")
    if nodes is None or isinstance(nodes, str):
        return nodes or ""
    raise SlurmUnparsable(f"nodes in squeue's JSON are {nodes!r}")


def _refs(job: dict[str, Any]) -> Iterator[JobRef]:
    number, array, task = _of(job, "job_id", int), _number(job, "array_job_id"), _number(job, "array_task_id")
    if not array:
        yield JobRef(str(number))
    elif task is not None:
        yield JobRef(f"{array}_{task}")
    elif not job.get("array_task_string"):
        yield JobRef(str(array))  # it ended before it started: which element it was is forgotten
    else:
        for one in _tasks(job["array_task_string"]):
            yield JobRef(f"{array}_{one}")


def _tasks(text: str) -> Iterator[int]:
    """`1,4-7%2`, `0-8:4`: the elements that still wait."""
    for part in text.partition("%")[0].split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if found is None:
            raise SlurmUnparsable(f"array_task_string in squeue's JSON is {text!r}")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        yield from range(first, last + 1, step)
