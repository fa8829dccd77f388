"""When the record is worth writing."""

from __future__ import annotations

from slurm_resilience.agent.witness import SIGNALS_KEPT, STEPS_EVERY_S, Witness
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from tests.unit.agent.scene import page


def witness() -> Witness:
    return Witness(AgentRecord(0, "n1", 1, 0.0, Outcome.RUNNING))


def test_a_rank_that_does_something_else_is_written_at_once_and_its_steps_now_and_then():
    seen = witness()
    assert seen.saw((page(0, RankPhase.STEPPING, step=1),), 100.0)
    assert not seen.saw((page(0, RankPhase.STEPPING, step=2),), 101.0)
    assert seen.saw((page(0, RankPhase.SAVING, step=2),), 101.1)
    assert not seen.saw((page(0, RankPhase.SAVING, step=3),), 101.2)
    assert seen.saw((page(0, RankPhase.SAVING, step=4),), 101.1 + STEPS_EVERY_S)
    assert not seen.saw((page(0, RankPhase.SAVING, step=4),), 200.0)
    assert seen.record.ranks[0].step == 4


def test_the_first_request_is_the_one_that_is_told():
    seen = witness()
    seen.asked(StopRequest(StopReason.WARNING, "SIGUSR1 came", 5.0, 100.0), 1000.0)
    seen.asked(StopRequest(StopReason.WARNING, "SIGUSR1 came", 5.0, 30.0), 1010.0)
    assert (seen.record.stop_reason, seen.record.stop_asked_s) == ("WARNING", 1000.0)


def test_a_rain_of_signals_does_not_fill_the_record():
    seen = witness()
    for second in range(SIGNALS_KEPT + 50):
        seen.signalled("SIGUSR1", float(second))
    assert len(seen.record.signals) == SIGNALS_KEPT
    assert seen.record.signals[0] == ("SIGUSR1", 0.0)
