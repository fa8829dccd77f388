"""What Slurm says of a job whose attempt is over: its record, its past lives, and by which rules it was treated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.errors import SlurmError
from slurm_resilience.slurm.client import JobRecord, JobRef, PastLife, SlurmClient
from slurm_resilience.supervisor.asking import Asking


@dataclass(frozen=True, slots=True)
class SlurmsWord:
    record: JobRecord | None = None
    """None: no answer, or no Slurm."""
    lives: tuple[PastLife, ...] = ()
    release: tuple[int, int] | None = None
    preempt_mode: str = ""


def ask_for_it(
    slurm: SlurmClient | None, job: str | None, asking: Asking, say: Callable[[str], None], *, afterwards: bool
) -> SlurmsWord:
    """The record is worth a wait: it decides between going on and leaving alone. The rest is asked for once.

    `afterwards`: the job may be over. Accounting knows nothing of a life before that, and can be slow.
    """
    if slurm is None or job is None:
        return SlurmsWord()
    client, ref = slurm, JobRef(job)
    try:
        record = asking.until_answered(lambda: client.job(ref), "asking Slurm what became of the job")
    except SlurmError as error:
        say(f"Slurm's record of job {job} is not to be had: {error}")
        return SlurmsWord()
    lives: tuple[PastLife, ...] = ()
    release: tuple[int, int] | None = None
    mode = ""
    with contextlib.suppress(SlurmError):
        configuration = slurm.configuration()
        release, mode = configuration.release, configuration.preempt_mode
        if record is not None:
            mode = slurm.partition(record.partition.partition(",")[0]).preempt_mode
        if afterwards and configuration.accounting:
            lives = slurm.lives(ref) or ()
    return SlurmsWord(record, lives, release, mode)
