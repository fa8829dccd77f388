"""The checkpoint writer of the kill sweep: kill_writer.py RUN [hasty] DESCRIPTOR. It commits what it has written.

A hasty one hardly waits before it tries again what was refused.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.execution import PAUSES_S
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.serve import serve
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointCommitted, CheckpointId, Part, SaveReason
from slurm_resilience.manifest.run_directory import RunDirectory

HASTY_PAUSES_S = (0.01, 0.01)


def commit(journal: Journal, checkpoint: str, step: int, receipt: PartReceipt) -> None:
    part = Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum)
    journal.append(CheckpointCommitted(CheckpointId(checkpoint), step, 1, SaveReason.PERIODIC, 1, (part,), 0.0))


def main(run: Path, descriptor: int, pauses_s: Sequence[float]) -> int:
    def finish(job: WriteJob, receipt: PartReceipt) -> None:
        commit(Journal(RunDirectory(run)), job.checkpoint, job.context["step"], receipt)

    return serve(descriptor, run, finish=finish, busy=lambda _: None, pauses_s=pauses_s)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[-1]), HASTY_PAUSES_S if "hasty" in sys.argv[2:-1] else PAUSES_S))
