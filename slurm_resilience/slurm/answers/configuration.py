"""What `scontrol show config` says of the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.client import SlurmConfiguration

_CRED_EXPIRE_S = 120
"""What Slurm takes where AuthInfo says nothing."""


def read_configuration(answer: str) -> SlurmConfiguration:
    values = {
        key.strip(): value.strip()
        for key, equals, value in (line.partition("=") for line in answer.splitlines())
        if equals and not key.startswith(" ")  # what is indented belongs to a plugin
    }
    kill_wait_s = _number(values, "KillWait")
    if kill_wait_s is None:
        raise SlurmUnparsable("`scontrol show config` names no KillWait")
    over_minutes = _number(values, "OverTimeLimit")
    return SlurmConfiguration(
        version=values.get("SLURM_VERSION", "unknown"),
        cluster=values.get("ClusterName", "unknown"),
        kill_wait_s=kill_wait_s,
        job_requeue=values.get("JobRequeue", "1") == "1",
        preempt_mode=values.get("PreemptMode", "OFF"),
        proctrack=values.get("ProctrackType", "unknown"),
        over_time_limit_s=None if over_minutes is None else 60 * over_minutes,
        requeue_exit=_exit_codes(values.get("RequeueExit", "")),
        max_batch_requeue=_number(values, "MaxBatchRequeue"),
        preempt_type=values.get("PreemptType", ""),
        user_signal_first=_sends_user_signal(values),
        accounting=values.get("AccountingStorageType", "") == "accounting_storage/slurmdbd",
        requeue_delay_s=_requeue_delay_s(values),
        requeue_exit_hold=_exit_codes(values.get("RequeueExitHold", "")),
    )


def _number(values: Mapping[str, str], name: str) -> int | None:
    found = re.match(r"(\d+)", values.get(name, ""))
    return int(found[1]) if found else None


def _sends_user_signal(values: Mapping[str, str]) -> bool:
    """The second is its name of 19.05, which Slurm still takes."""
    return "send_user_signal" in _words(values.get("PreemptParameters", "")) or "preempt_send_user_signal" in _words(
        values.get("SlurmctldParameters", "")
    )


def _words(text: str) -> set[str]:
    return {word.strip().lower() for word in text.split(",")}


def _requeue_delay_s(values: Mapping[str, str]) -> int:
    """SchedulerParameters=requeue_delay (26.05), or else a credential's life and a second."""
    delay = re.search(r"(?:^|,)\s*requeue_delay=(\d+)", values.get("SchedulerParameters", ""), re.IGNORECASE)
    if delay is not None:
        return int(delay[1])
    expire = re.search(r"(?:^|,)\s*cred_expire=(\d+)", values.get("AuthInfo", ""), re.IGNORECASE)
    return (int(expire[1]) if expire is not None else _CRED_EXPIRE_S) + 1


def _exit_codes(text: str) -> tuple[int, ...]:
    """`85,90-92` as numbers; `(null)` is none."""
    codes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit():
            codes.extend(range(int(first), int(last if dash and last.isdigit() else first) + 1))
    return tuple(codes)
