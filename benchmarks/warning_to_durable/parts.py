"""From the warning to the requeue, part by part. Pure: moments in, seconds out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure, figure

PARTS = {
    "heard": "every node agent had the signal",
    "agreed": "every rank stands at the step it stops after, and the save begins",
    "durable": "every part is on disk",
    "committed": "the manifest names the checkpoint",
    "left": "every rank has left the training's `with` block",
    "exit handlers": "the exit handlers of every rank have run, its DataLoader workers are gone",
    "ranks gone": "the last rank's process is gone",
    "torchrun gone": "the last torchrun is gone",
    "agents gone": "the last node agent is gone",
    "srun gone": "the step is over",
    "decided": "the manifest has the attempt's end and what is to be done",
    "requeued": "Slurm has accepted the requeue",
}
"""What is true at the end of each part, in the order in which they follow."""


@dataclass(frozen=True)
class Stop:
    """One stop: when the warning was sent, and when each part was reached, on the wall's clock."""

    asked_s: float
    reached_s: Mapping[str, float]

    def since(self, part: str) -> float:
        return self.reached_s[part] - self.asked_s

    def took(self, part: str) -> float:
        """From the end of the part before; small negative values are two clocks that look at different moments."""
        names = list(PARTS)
        at = names.index(part)
        before_s = self.asked_s if at == 0 else self.reached_s[names[at - 1]]
        return self.reached_s[part] - before_s


@dataclass(frozen=True)
class Summary:
    since: dict[str, Figure]
    took: dict[str, Figure]


def summary(stops: Sequence[Stop]) -> Summary:
    return Summary(
        {part: figure([stop.since(part) for stop in stops]) for part in PARTS},
        {part: figure([stop.took(part) for stop in stops]) for part in PARTS},
    )
