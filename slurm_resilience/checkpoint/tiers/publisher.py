"""Publishing what there is to publish, one after the other, while the run goes on making and forgetting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.publication import Parcel, publish
from slurm_resilience.checkpoint.tiers.publishing_plan import Candidate, Send, plan_publishing
from slurm_resilience.checkpoint.tiers.transit import Transit
from slurm_resilience.clock import Clock
from slurm_resilience.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Sent:
    checkpoint: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Vanished:
    """Forgotten while it was on its way: nothing to complain about."""

    checkpoint: str


@dataclass(frozen=True, slots=True)
class Failed:
    checkpoint: str
    why: str


Result = Union[Sent, Vanished, Failed]


class Publisher:
    def __init__(
        self,
        depot: Depot,
        *,
        look: Callable[[], Sequence[Candidate]],
        parcel: Callable[[str], Parcel],
        record: Callable[[str], None],
        clock: Clock,
        newest: int | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`look` tells what the manifest says now, `parcel` finds a checkpoint's files (CheckpointError where it
        can't), `record` writes down that one is published."""
        self._depot = depot
        self._look = look
        self._parcel = parcel
        self._record = record
        self._clock = clock
        self._newest = newest
        self._say = say

    def to_send(self, *, without: Sequence[str] = ()) -> list[str]:
        """In the order to send them."""
        choices = plan_publishing(self._look(), newest=self._newest)
        return [each.checkpoint for each in choices if isinstance(each, Send) and each.checkpoint not in without]

    def publish_all(self, transit: Transit) -> list[Result]:
        """One after the other, asking anew after each, until nothing is left that wasn't tried in this call."""
        results: list[Result] = []
        while waiting := self.to_send(without=[each.checkpoint for each in results]):
            results.append(self.publish_one(waiting[0], transit))
        return results

    def publish_one(self, checkpoint: str, transit: Transit) -> Result:
        """Raises what concerns all of them: ConfigurationError, the manifest's errors, and Interrupted."""
        try:
            parcel = self._parcel(checkpoint)
            publish(self._depot, parcel, transit=transit, clock=self._clock, say=self._say)
        except CheckpointError as error:
            if any(each.checkpoint == checkpoint and not each.live for each in self._look()):
                return Vanished(checkpoint)
            return Failed(checkpoint, str(error))
        self._record(checkpoint)
        return Sent(checkpoint, sum(file.contents.size_bytes for file in parcel.files))
