"""What `scontrol show partition` says of one: administrators write it, users don't."""

from __future__ import annotations

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.times import span_s
from slurm_resilience.slurm.client import PartitionRecord


def read_partition(name: str, answer: str) -> PartitionRecord:
    """Of the one line of `scontrol --oneliner show partition NAME`."""
    values = dict(word.partition("=")[::2] for word in answer.split())
    grace = values.get("GraceTime", "")
    if values.get("PartitionName") != name or not grace.isdigit():
        raise SlurmUnparsable(f"`scontrol show partition {name}` names no GraceTime")
    over = values.get("OverTimeLimit", "NONE")
    if over not in ("NONE", "UNLIMITED") and not over.isdigit():
        raise SlurmUnparsable(f"the OverTimeLimit of partition {name} is no number of minutes: {over!r}")
    return PartitionRecord(
        name,
        grace_time_s=int(grace),
        preempt_mode=values.get("PreemptMode", "OFF"),
        over_time_limit_s=60 * int(over) if over.isdigit() else None,
        max_time_s=span_s(values.get("MaxTime", "UNLIMITED")),
    )
