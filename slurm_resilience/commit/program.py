"""The writer process of a rank: `python -m slurm_resilience.commit.program RUN ATTEMPT RUNTIME LOCAL_RANK SOCKET`.

It writes parts from the rank's snapshot. Rank 0's also commits the checkpoint once the word of every rank lies there:
whether the ranks still live doesn't matter. RUNTIME is `-` without a node agent.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.serve import serve
from slurm_resilience.clock import SystemClock
from slurm_resilience.commit.gathering import Gathering
from slurm_resilience.commit.part_word import PartRefused, PartWritten, refuse, say, shared_proof, terms_from_json
from slurm_resilience.commit.verdict import NeverWill
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointId
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.writer_page import WriterPage


@dataclass(frozen=True, slots=True)
class Finishing:
    """What comes behind a durable part."""

    run: RunDirectory
    attempt: int
    journal: Journal
    """One for all jobs: it remembers how far it has read, and a long run's manifest takes seconds to read."""

    def finish(self, job: WriteJob, receipt: PartReceipt) -> None:
        """Give our word; on rank 0 wait for everybody's and commit. Raises Fenced, CheckpointUnavailable, OSError."""
        terms = replace(terms_from_json(job.context["terms"]), shared=_shared(self.run.path / receipt.file, job))
        seconds = max(0.0, time.time() - float(job.context["began_s"]))
        folder = self.run.checkpoints / job.checkpoint
        say(folder, PartWritten(terms, receipt, seconds, float(job.context["stall_s"])))
        if job.rank != 0:
            return
        gathering = Gathering(
            self.journal, folder, world_size=terms.world_size, fence=self.attempt, clock=SystemClock()
        )
        outcome = gathering.wait()
        refused = outcome if isinstance(outcome, NeverWill) else gathering.commit(outcome.committed)
        if refused is None:
            return
        if refused.errno is not None:
            raise OSError(refused.errno, refused.why)
        raise CheckpointUnavailable(refused.why)

    def refused(self, job: WriteJob, why: str) -> None:
        """Nobody is to wait for a part that won't come."""
        with contextlib.suppress(OSError):
            refuse(self.run.checkpoints / job.checkpoint, PartRefused(CheckpointId(job.checkpoint), job.rank, why))


def _shared(path: Path, job: WriteJob) -> str | None:
    """The checksum over the checksums of what is the same on all ranks, from the part's own table."""
    rows = job.context["shared_rows"]
    if not rows:
        return None
    start, end = min(rows), max(rows) + 1
    with path.open("rb") as file:
        file.seek(job.image.checksums_offset + start * CHECKSUM_BYTES)
        table = file.read((end - start) * CHECKSUM_BYTES)
    return shared_proof(table[(row - start) * CHECKSUM_BYTES :][:CHECKSUM_BYTES] for row in rows)


@contextlib.contextmanager
def _page(runtime: str, local_rank: int) -> Iterator[Callable[[bool], None]]:
    if runtime == "-":
        yield lambda _: None
        return
    try:
        with WriterPage(Path(runtime), local_rank) as page:
            yield lambda on: page.busy(on=on)
    except OSError as error:
        sys.stderr.write(f"slurm-resilience: {runtime} doesn't take the writer's page: {error.strerror}\n")
        yield lambda _: None


def main(arguments: list[str]) -> int:
    root, attempt, runtime, local_rank, descriptor = arguments
    run = RunDirectory(Path(root))
    finishing = Finishing(run, int(attempt), Journal(run))
    with _page(runtime, int(local_rank)) as busy:
        return serve(int(descriptor), run.path, finish=finishing.finish, refused=finishing.refused, busy=busy)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
