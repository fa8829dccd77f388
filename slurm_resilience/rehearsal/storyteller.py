"""What a run's chain has to tell, one sentence for each thing that is new. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import SaveReason

_REASONS = {SaveReason.PERIODIC: "periodic", SaveReason.STOP: "asked to stop", SaveReason.FINAL: "final"}


@dataclass
class Storyteller:
    """Tells everything once."""

    name: str
    _told: set[str] = field(default_factory=set)

    def news(self, chain: Chain | None) -> list[str]:
        if chain is None:
            return []
        fresh = []
        for key, sentence in _facts(chain):
            if key not in self._told:
                self._told.add(key)
                fresh.append(f"{self.name}: {sentence}")
        return fresh


def _facts(chain: Chain) -> Iterator[tuple[str, str]]:
    for attempt in chain.attempts:
        yield from _facts_of(attempt)
    if chain.finished:
        yield "finished", "finished"


def _facts_of(attempt: Attempt) -> Iterator[tuple[str, str]]:
    number = attempt.number
    job = f" as job {attempt.started.job}" if attempt.started.job else ""
    yield f"{number} started", f"attempt {number} starts{job}"
    if attempt.resumed is not None:
        origin = f"goes on after step {attempt.resumed.step}" if attempt.resumed.checkpoint else "begins at step 0"
        yield f"{number} resumed", f"{origin}, {attempt.resumed.world_size} ranks"
    for checkpoint in attempt.checkpoints:
        reason = _REASONS.get(checkpoint.reason, checkpoint.reason.value)
        yield f"saved {checkpoint.checkpoint}", f"checkpoint of step {checkpoint.step} is durable ({reason})"
    if attempt.stop_asked is not None:
        yield f"{number} stop", f"all ranks stopped after one step: {attempt.stop_asked.because}"
    if attempt.ended is not None:
        then = {"requeue": "; queued again", "restart": "; started again"}.get(attempt.ended.decision, "")
        yield f"{number} ended", f"attempt {number} ended: {attempt.ended.because}{then}"
