"""Keeps the agent's record of what happened: what it says is the supervisor's best evidence."""

from __future__ import annotations

from dataclasses import replace

from slurm_resilience.agent.verdict import Verdict
from slurm_resilience.errors import EXIT_OWNED
from slurm_resilience.manifest.agent_record import AgentRecord, RankEnd
from slurm_resilience.signals.runtime_folder import RankPage
from slurm_resilience.signals.stop_request import StopReason, StopRequest

STEPS_EVERY_S = 5.0
SIGNALS_KEPT = 100


class Witness:
    """Holds the record; its verbs say whether it is worth writing now."""

    def __init__(self, record: AgentRecord) -> None:
        self.record = record
        self._steps_at_s = -STEPS_EVERY_S

    def signalled(self, name: str, wall_s: float) -> None:
        self.record = replace(self.record, signals=(*self.record.signals, (name, wall_s))[:SIGNALS_KEPT])

    def asked(self, request: StopRequest, wall_s: float) -> None:
        """Only the first request: later ones can't change its reason."""
        if self.record.stop_reason is None:
            self.record = replace(
                self.record, stop_reason=request.reason.name, stop_because=request.because, stop_asked_s=wall_s
            )

    def fenced(self, newer: int, wall_s: float) -> None:
        """A newer attempt has begun: that outranks every other reason to stop."""
        because = f"attempt {newer} of the run has begun"
        self.record = replace(
            self.record, stop_reason=StopReason.FENCED.name, stop_because=because, stop_asked_s=wall_s
        )

    def saw(self, pages: tuple[RankPage, ...], monotonic_s: float) -> bool:
        """True: a rank changed what it does, or the steps moved on since some seconds ago."""
        ends = tuple(_end(page) for page in pages)
        if ends == self.record.ranks:
            return False
        was = {end.rank: (end.phase, end.pid) for end in self.record.ranks}
        material = was != {end.rank: (end.phase, end.pid) for end in ends}
        self.record = replace(self.record, ranks=ends)
        if not material and monotonic_s - self._steps_at_s < STEPS_EVERY_S:
            return False
        self._steps_at_s = monotonic_s
        return True

    def ended(self, verdict: Verdict, code: int | None, wall_s: float) -> None:
        if verdict.exit_code == EXIT_OWNED and self.record.stop_reason != StopReason.FENCED.name:
            self.record = replace(self.record, stop_reason=StopReason.FENCED.name, stop_because=verdict.why)
        self.record = replace(self.record, outcome=verdict.outcome, command_code=code, why=verdict.why, ended_s=wall_s)


def _end(page: RankPage) -> RankEnd:
    return RankEnd(
        page.rank,
        page.local_rank,
        page.pid,
        page.phase.name,
        page.step,
        page.saved_step,
        page.stopped_after_step,
    )
