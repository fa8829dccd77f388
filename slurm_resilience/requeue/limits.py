"""How often which cause may end an attempt before the run is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is a number since the run's last progress: a step that no attempt had reached before.

    Preemptions, time limits, requeues by hand and warnings have none: as long as the run gains steps, they are free.
    """

    attempts_without_progress: int = 2
    """This many attempts in a row that gained no step end the run, preemptions and requeues by hand aside."""
    crashes: int = 3
    hangs: int = 3
    storage_faults: int = 5
    out_of_memory: int = 2
    """The same state needs the same memory: a second try is for what somebody else's process took."""
    node_failures: int = 10
    never_started: int = 3
    """Launch failures, and jobs that were over before anything ran in them."""
    quarantines: int = 2
    """This many checkpoints in a row may be put aside because attempts die soon after loading them."""
