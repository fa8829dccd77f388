"""A check that can't even be killed: it stands in the kernel, waiting for a disk that is gone."""

from __future__ import annotations

import time
from typing import Any

from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.errand import Errand
from slurm_resilience.preflight.result import Outcome


class Stuck:
    """Stands for its Child: it never ends, whatever is done to it."""

    code = None
    last_noise = b""
    descriptors = ()

    def __init__(self) -> None:
        self.started_s = time.monotonic() - 10.0
        self.left_behind = False
        self.said: list[dict[str, Any]] = [{"tell": "writing /scratch/x"}]

    def look(self) -> bool:
        return False

    def read(self) -> list[dict[str, Any]]:
        said, self.said = self.said, []
        return said

    def leave_behind(self) -> None:
        self.left_behind = True


def test_a_check_that_cannot_be_killed_is_left_behind_at_its_time_out_and_has_a_result() -> None:
    stuck = Stuck()
    errand = Errand(Check("storage", "writing", "m:f", 5.0, Outcome.FAIL), stuck)  # type: ignore[arg-type]
    result, done = list(errand.go_on())
    assert errand.ended
    assert stuck.left_behind
    assert (result["finding"]["outcome"], result["finding"]["sentence"]) == (
        "fail",
        "no answer within 5 s, while writing /scratch/x",
    )
    assert done["kind"] == "done"
