"""What slurm-resilience itself says of an end. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root

_ERRORS = "slurm_resilience/errors.py"


def _own(
    slug: str, title: str, names: str, hints: tuple[str, ...], do: str, retry: Retry, command: str
) -> KnownFailure:
    return root(
        f"ours.{slug}", title, rf"\b(?:{names})\b(?:: (?P<why>.{{1,200}}))?", hints, Cause.CRASHED, _ERRORS, do=do,
        retry=retry, command=command,
    )  # fmt: skip


_VOICE = "slurm_resilience/supervisor/voice.py"
_AGENT = r"srun-resilient\[[nt](?P<tasks>\d{1,7})\]: "
"""A node agent, or the relay of a task: by the number of the task that it is, or stands for."""

OUR_WORDS = (
    advice(
        "ours.ended",
        "srun-resilient has said what it makes of an attempt's end",
        r"srun-resilient: attempt (?P<seq>\d{1,9}) ended\b(?P<why>.{0,300})",
        "srun-resilient: attempt",
        "slurm_resilience/supervisor/past.py",
    ),
    advice(
        "ours.deputy",
        "the supervisor was killed, and its deputy has said what it makes of the end",
        r"srun-resilient: the supervisor of attempt (?P<seq>\d{1,9}) was killed; (?P<why>.{0,300})",
        "srun-resilient: the supervisor",
        "slurm_resilience/supervisor/deputy.py",
    ),
    advice(
        "ours.begun",
        "an attempt of the run begins",
        r"srun-resilient: attempt (?P<seq>\d{1,9}) of run ",
        "srun-resilient: attempt",
        "slurm_resilience/supervisor/supervise.py",
    ),
    advice(
        "ours.word",
        "srun-resilient says something, perhaps in words of others that stand elsewhere",
        r"srun-resilient: ",
        "srun-resilient: ",
        _VOICE,
    ),
    advice(
        "ours.killing",
        "a node agent killed what did not end in time after it was asked to",
        _AGENT + r"(?:killed at the deadline|.{0,300} and its time to do so was over)",
        "srun-resilient[",
        "slurm_resilience/agent/verdict.py",
    ),
    advice(
        "ours.told",
        "a node agent asks its ranks to stop",
        _AGENT + r"(?P<why>.{1,300}): asking the ranks to stop",
        "srun-resilient[",
        "slurm_resilience/agent/loop.py",
    ),
)
"""Before all others: such a line may quote theirs, and what it quotes stands where it was said first."""

OURS = (
    root(
        "ours.storage",
        "the run's file system said no, for now",
        r"\b(?:Checkpoint|Manifest)Unavailable\b(?:: (?P<why>.{1,200}))?",
        ("CheckpointUnavailable", "ManifestUnavailable"),
        Cause.STORAGE,
        _ERRORS,
        do="look at the file system of the run directory; the run goes on from its newest checkpoint",
        retry=Retry.HELPS,
        command="df -h RUN; slurm-resilience status RUN",
    ),
    _own(
        "checkpoint-damaged",
        "no checkpoint that could be loaded is whole",
        "CheckpointDamaged|NothingToResume",
        ("CheckpointDamaged", "NothingToResume"),
        "look at what is there, and say which one to start from",
        Retry.USELESS,
        "slurm-resilience checkpoints list RUN",
    ),
    _own(
        "checkpoint-mismatch",
        "the checkpoint is whole, but not for this training",
        "CheckpointMismatch|CheckpointUnsupported",
        ("CheckpointMismatch", "CheckpointUnsupported"),
        "build the training as it was when the checkpoint was written, or start a new run",
        Retry.USELESS,
        "slurm-resilience checkpoints show RUN CHECKPOINT",
    ),
    _own(
        "journal-damaged",
        "the run's journal is not what was written",
        "ManifestDamaged|ManifestUnsupported",
        ("ManifestDamaged", "ManifestUnsupported"),
        "look at the line of the journal that the error names; nothing is guessed at",
        Retry.USELESS,
        "slurm-resilience status RUN",
    ),
    _own(
        "configuration",
        "the run is asked for in a way that can't work",
        "ConfigurationError",
        ("ConfigurationError",),
        "change what the sentence names",
        Retry.USELESS,
        "srun-resilient --dry-run …",
    ),
    cascade(
        "ours.peers-gone",
        "another rank of the attempt is gone",
        r"\bPeersGone\b|another rank of this attempt is gone",
        ("PeersGone", "another rank of this attempt"),
        "slurm_resilience/training/ranks.py",
    ),
    cascade(
        "ours.fenced",
        "a newer attempt, or another one, has the run",
        r"slurm_resilience\.errors\.(?:Fenced|RunOwned)\b|may not write any more: attempt \d+ has started",
        ("slurm_resilience.errors.", "may not write any more"),
        _ERRORS,
    ),
)
