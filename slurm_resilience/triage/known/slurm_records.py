"""Slurm's own records in a log: node reasons and job states, as scontrol and sinfo print them. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, root

_26 = "Slurm 26.11.0rc1, src/slurmctld and src/slurmd"
_REASON = r"Reason=(?:\[?\w[\w ]{0,30}\]? ?: ?)?"
_NODE_REASONS: tuple[tuple[str, str, str, str], ...] = (
    ("reason-not-responding", "the controller hears nothing of a node", "Not responding", "see whether the node lives"),
    ("reason-rebooted", "a node was started anew on its own", "Node unexpectedly rebooted", "look why it did so"),
    ("reason-low-memory", "a node has less memory than it should", "Low RealMemory", "look for a broken memory module"),
    ("reason-low-processors", "a node has lost processors", r"Low socket\*core\*thread", "have it checked"),
    ("reason-kill-failed", "a node could not kill a process", "Kill task failed", "look for a hung mount or GPU"),
    ("reason-prolog", "the prolog failed on a node", "Prolog (?:error|failed)", "read the prolog's log on the node"),
    ("reason-epilog", "the epilog failed on a node", "Epilog (?:error|failed)", "read the epilog's log on the node"),
    ("reason-batch-failed", "a node could not finish a batch job", "batch job complete failure", "read slurmd's log"),
)  # fmt: skip


def _reason(slug: str, title: str, words: str, do: str) -> KnownFailure:
    return root(
        f"slurm.{slug}",
        title,
        rf"{_REASON}(?P<why>{words})",
        "Reason=",
        Cause.NODE_FAILURE,
        _26,
        do=f"go on without that node; {do}",
        retry=Retry.ELSEWHERE,
        command="sinfo -R; scontrol show node {node}",
        avoid_node=True,
    )


SLURM_RECORDS = (
    *(_reason(*row) for row in _NODE_REASONS),
    root(
        "slurm.state-time-limit",
        "the job's time was over",
        r"JobState=TIMEOUT\b",
        "JobState=",
        Cause.TIME_LIMIT,
        "Slurm 22.05.8, strings",
        do="start it again: it goes on from its newest checkpoint",
        retry=Retry.HELPS,
        setting="--time=…",
    ),
    root(
        "slurm.state-preempted",
        "another job had a better right to the nodes",
        r"JobState=PREEMPTED\b",
        "JobState=",
        Cause.PREEMPTED,
        "Slurm 22.05.8, strings",
        do="let it be queued again: it goes on from its newest checkpoint",
        retry=Retry.HELPS,
    ),
    root(
        "slurm.state-node-failure",
        "a node of the job failed",
        r"JobState=NODE_FAIL\b",
        "JobState=",
        Cause.NODE_FAILURE,
        "Slurm 22.05.8, strings",
        do="find out which node it was, and go on without it",
        retry=Retry.ELSEWHERE,
        command="sinfo -R",
    ),
    root(
        "slurm.state-boot-failure",
        "a node of the job could not be started",
        r"JobState=BOOT_FAIL\b",
        "JobState=",
        Cause.LAUNCH_FAILED,
        "Slurm 22.05.8, strings",
        do="start it again on other nodes",
        retry=Retry.ELSEWHERE,
        command="sinfo -R",
    ),
    root(
        "slurm.state-out-of-memory",
        "the job used up its host memory",
        r"JobState=OUT_OF_MEMORY\b|\bExitCode=0:125\b",
        ("JobState=", "ExitCode="),
        Cause.OUT_OF_MEMORY,
        "Slurm 22.05.8, strings",
        do="give the job more host memory, or let it use less",
        retry=Retry.USELESS,
        setting="--mem=…",
    ),
    root(
        "slurm.state-deadline",
        "the job could not end before the deadline that its user had set",
        r"JobState=DEADLINE\b",
        "JobState=",
        Cause.CANCELLED,
        "Slurm 24.11.5, run here",
        do="submit it again with a later deadline, or without one",
        retry=Retry.USELESS,
        setting="--deadline=…",
    ),
    root(
        "slurm.state-cancelled",
        "somebody cancelled the job",
        r"JobState=CANCELLED\b",
        "JobState=",
        Cause.CANCELLED,
        "Slurm 22.05.8, strings",
        do="ask who cancelled it; to go on, submit it again",
        retry=Retry.HELPS,
        command="sacct -j {job} -o JobID,State%40",
    ),
    advice(
        "slurm.state-failed",
        "the job failed: its record doesn't say why",
        r"JobState=FAILED Reason=(?P<why>\w+)",
        "JobState=",
        "Slurm 22.05.8, strings",
    ),
)
