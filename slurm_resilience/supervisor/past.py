"""An attempt that is over, and by which code srun-resilient leaves after it."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.errors import EXIT_FINISHED, EXIT_OWNED, EXIT_WILL_GO_ON, EXIT_WILL_NOT_GO_ON
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import Way
from slurm_resilience.requeue.history import CRASHES
from slurm_resilience.supervisor.ending import Conclusion


@dataclass(frozen=True, slots=True)
class Past:
    """An attempt that is over."""

    number: int
    conclusion: Conclusion
    code: int | None
    way: Way

    @property
    def exit_code_of_a_stop(self) -> int:
        """The command's own code where it failed and nobody could have started it again; ours where we decided."""
        if self.conclusion.cause is Cause.FENCED:
            return EXIT_OWNED
        own = self.way is Way.NONE and self.conclusion.cause in CRASHES
        if self.code is None or not own or self.code in (EXIT_FINISHED, EXIT_WILL_GO_ON):
            return EXIT_WILL_NOT_GO_ON
        return self.code
