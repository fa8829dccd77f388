"""One rank's saves in the background: what it borrows, its snapshot, its writer process."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.checkpoint.writer.outcome import Gone, Outcome, Refused, Written
from slurm_resilience.clock import Clock
from slurm_resilience.commit.part_word import Terms, terms_to_json
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.manifest.records import CheckpointId
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.background import PartDone, PartFailed
from slurm_resilience.training.facts import facts_of

if TYPE_CHECKING:  # they come with torch
    from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
    from slurm_resilience.training.loans import Loans
    from slurm_resilience.training.overlap import Overlap


_LONGEST_WAIT_S = 86400.0
"""More than any save takes, and a number that poll(2) accepts."""


def writer_command(run: RunDirectory, *, attempt: int, runtime_folder: Path | None, local_rank: int) -> list[str]:
    runtime = "-" if runtime_folder is None else str(runtime_folder)
    program = [sys.executable, "-m", "slurm_resilience.commit.program"]
    return [*program, str(run.path), str(attempt), runtime, str(local_rank)]


class SnapshotWriting:
    """As `Writing` says."""

    def __init__(
        self, *, snapshot: Snapshot, writer: WriterProcess, loans: Loans, clock: Clock, overlap: Overlap | None
    ) -> None:
        """`overlap` has the copying go on while the next step computes; without it, `begin` copies everything."""
        self._snapshot = snapshot
        self._writer = writer
        self._loans = loans
        self._clock = clock
        self._overlap = overlap
        self._checkpoint: CheckpointId | None = None
        self._receipt: Written | None = None

    def begin(self, checkpoint: CheckpointId, state: Mapping[str, Any], terms: Terms, *, began_s: float) -> float:
        started_s = self._clock.monotonic_s()
        self._checkpoint, self._receipt = checkpoint, None
        facts = facts_of(terms.step, terms.attempt, terms.world_size)
        loan = self._loans.arrange(checkpoint, state, facts)
        self._writer.poll()  # one that has died while it was idle is no loss: `start` makes another
        try:
            self._writer.start()
            taken = self._snapshot.take(
                checkpoint,
                state,
                facts,
                context={"terms": terms_to_json(terms), "began_s": began_s, "shared_rows": list(loan.shared_rows)},
                overlap=self._overlap is not None,
                overlapped=frozenset() if self._overlap is None else self._overlap.tensors(),
                borrowed=loan.borrowed,
            )
            stall_s = self._clock.monotonic_s() - started_s
            taken.job.context["stall_s"] = stall_s
            self._writer.submit(taken)  # it takes a descriptor, of which trainings can run short
        except (OSError, MemoryError) as error:
            raise CheckpointUnavailable(f"{checkpoint}: no snapshot could be taken: {error}") from error
        if self._overlap is not None:
            self._overlap.guard(taken)
        return stall_s

    def poll(self) -> PartDone | PartFailed | None:
        return self._heard(self._writer.poll())

    def wait(self, timeout_s: float) -> PartDone | PartFailed | None:
        return self._heard(self._writer.wait(None if math.isinf(timeout_s) else min(timeout_s, _LONGEST_WAIT_S)))

    def settled(self, *, saved: bool) -> None:
        """All ranks know now whether the checkpoint exists."""
        if saved and self._receipt is not None and self._checkpoint is not None:
            self._loans.committed(self._checkpoint, self._receipt.receipt)
        else:
            self._loans.distrust()

    def close(self) -> None:
        """A part in flight is finished without us."""
        self._writer.close()
        with contextlib.suppress(ValueError):
            self._snapshot.close()

    def _heard(self, outcome: Outcome | None) -> PartDone | PartFailed | None:
        match outcome:
            case None:
                return None
            case Written(_, seconds):
                self._receipt = outcome
                return PartDone(seconds)
            case Refused(number, why):
                return PartFailed(why, number)
            case Gone(why):
                return PartFailed(why)
