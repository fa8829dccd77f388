"""The lives of a job as sacct tells them (`-P -D -X`: one line a life, columns parted by `|`), and a QOS's settings.

No column here is one that users can write into.
"""

from __future__ import annotations

import re

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.columns import exit_of, seconds_of, state_of
from slurm_resilience.slurm.answers.times import span_s
from slurm_resilience.slurm.client import JobRef, JobState, PastLife, QosRecord

_FIELDS = ("JobID", "State", "ExitCode", "Start", "End", "NodeList", "Reason")
FORMAT = ",".join(_FIELDS)
_QOS_FIELDS = ("Name", "GraceTime", "PreemptMode")
QOS_FORMAT = ",".join(_QOS_FIELDS)
_NOWHERE = ("None assigned", "None", "Unknown")


def read_lives(job: JobRef, answer: str) -> tuple[PastLife, ...]:
    """The lives of `job` in sacct's answer to FORMAT, the oldest first, as sacct lists them."""
    return tuple(
        _life(values) for values in _rows("sacct", answer, _FIELDS) if values["JobID"].partition("+")[0] == job
    )


def _rows(command: str, answer: str, names: tuple[str, ...]) -> list[dict[str, str]]:
    rows = []
    for line in answer.splitlines():
        if not line.strip():
            continue
        cells = line.split("|")
        if len(cells) != len(names):
            raise SlurmUnparsable(f"{command} says {len(cells)} columns instead of {len(names)}: {line[:200]!r}")
        rows.append(dict(zip(names, (cell.strip() for cell in cells), strict=True)))
    return rows


def _life(values: dict[str, str]) -> PastLife:
    word, _, by = values["State"].partition(" ")
    found = re.fullmatch(r"by (\d+)", by)
    exit_code, exit_signal = exit_of(values["ExitCode"])
    nodes = "" if values["NodeList"] in _NOWHERE else values["NodeList"]
    return PastLife(
        # REQUEUED is how accounting calls a life that a requeue has ended: not what it died of.
        state=JobState.UNKNOWN if word == "REQUEUED" else state_of(word.rstrip("+")),
        cancelled_by=int(found[1]) if found else None,
        exit_code=exit_code,
        exit_signal=exit_signal,
        start_s=seconds_of(values["Start"]) if nodes else None,  # 22.05 says when it ended, where it never started
        end_s=seconds_of(values["End"]),
        nodes=nodes,
        reason=values["Reason"],
    )


def read_qos(name: str, answer: str) -> QosRecord | None:
    """The QOS called `name` in sacctmgr's answer to QOS_FORMAT; None: it isn't there."""
    for values in _rows("sacctmgr", answer, _QOS_FIELDS):
        if values["Name"] == name:
            grace_s = span_s(values["GraceTime"] or "0")
            if grace_s is None:
                raise SlurmUnparsable(f"the GraceTime of QOS {name} is no time: {values['GraceTime']!r}")
            return QosRecord(name, grace_s, values["PreemptMode"] or "cluster")
    return None
