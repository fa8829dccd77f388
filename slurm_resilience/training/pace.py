"""`save_every_minutes="auto"`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slurm_resilience.checkpoint.interval import LEAST_S, NODE_MTBF_S
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.rhythm import AutoInterval, Experience, SaveRhythm

MOST_MINUTES = 30.0
"""However little a node fails: nobody likes to lose more than that."""


@dataclass(frozen=True, slots=True)
class PaceSettings:
    auto: bool
    """Work out how often to save from what a save costs and how often this run fails."""
    least_s: float = LEAST_S
    most_s: float = MOST_MINUTES * 60

    def applied(self, rhythm: SaveRhythm, chain: Chain, environment: Environment) -> SaveRhythm:
        """`rhythm`, knowing what `chain` has been through. Raises ConfigurationError for bounds that can't be meant."""
        if self.auto:
            site_s = NODE_MTBF_S if environment.node_mtbf_days is None else environment.node_mtbf_days * 86400
            nodes = max(1, environment.world_size // max(1, environment.local_world_size))
            try:
                auto = AutoInterval.after(
                    Experience.of(chain), nodes=nodes, node_mtbf_s=site_s, least_s=self.least_s, most_s=self.most_s
                )
            except ValueError as error:
                raise ConfigurationError(f"save_every_minutes is auto, and {error}") from error
            rhythm = replace(rhythm, auto=auto)
        return rhythm
