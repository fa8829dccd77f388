"""What becomes of a run whose nodes are to be avoided."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import AlreadyQueued, Hold, Requeue, Restart, Stop, Successor, Way
from slurm_resilience.requeue.judgement import Judgement, judge
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.triage.diagnosis import Diagnosis
from tests.unit.requeue.chains import Told, chain_of


def judged(
    attempts: int, *, way: Way = Way.REQUEUE, queued: bool = False, cause: Cause = Cause.NODE_FAILURE
) -> Judgement:
    told = [Told(Cause.NODE_FAILURE, saves=(10 * number,)) for number in range(1, attempts)]
    chain = chain_of(*told, Told(None))
    diagnosis = Diagnosis(cause, "node n3 is unhealthy: gpu-ecc", (), avoid=("n3",))
    return judge(
        chain,
        attempts,
        diagnosis,
        signature=None,
        last_step=None,
        way=way,
        limits=Limits(node_failures=1) if attempts > 1 else Limits(),
        queued_by_slurm=queued,
    )


@pytest.mark.parametrize(
    ("way", "queued", "decision"),
    [
        (Way.REQUEUE, False, Requeue),
        (Way.CHAIN, False, Successor),
        (Way.IN_PLACE, False, Restart),
        (Way.REQUEUE, True, AlreadyQueued),
    ],
)
def test_whoever_goes_on_avoids_the_unhealthy_node(way: Way, queued: bool, decision: type) -> None:
    judgement = judged(1, way=way, queued=queued)
    assert isinstance(judgement.decision, decision)
    assert judgement.avoid == ("n3",)
    assert "node n3 is unhealthy" in judgement.decision.reason


@pytest.mark.parametrize(("queued", "decision"), [(False, Stop), (True, Hold)])
def test_it_counts_as_a_node_failure_and_who_stops_avoids_nothing(queued: bool, decision: type) -> None:
    judgement = judged(2, queued=queued)
    assert isinstance(judgement.decision, decision)
    assert "node failure" in judgement.decision.reason
    assert judgement.avoid == ()
