"""What is asked of Slurm about a job whose attempt is over, and what of it is worth a wait."""

from __future__ import annotations

from dataclasses import replace

from slurm_resilience.slurm.client import JobState, PastLife
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.slurms_word import SlurmsWord, ask_for_it
from tests.faults.fake_slurm import FakeClock, FakeSlurm, running

LIFE = PastLife(JobState.CANCELLED, 0, None, 15, 0.0, 10.0, "n1", "None")


def ask(slurm: FakeSlurm | None, *, afterwards: bool = True, patience_s: float = 60.0) -> SlurmsWord:
    clock = FakeClock()
    asking = Asking(clock, lambda _: None, clock.s + patience_s)
    return ask_for_it(slurm, "7", asking, lambda _: None, afterwards=afterwards)


def test_a_silent_controller_is_waited_for_and_then_gone_without() -> None:
    assert ask(FakeSlurm({"7": running()}, silent_for=3)).record == running()
    assert ask(FakeSlurm({"7": running()}, silent_for=10**9)) == SlurmsWord()


def test_the_rules_of_the_cluster_come_with_the_record() -> None:
    word = ask(FakeSlurm({"7": running()}))
    assert (word.release, word.preempt_mode) == ((22, 5), "REQUEUE")


def test_accounting_is_asked_only_where_there_is_one_and_the_job_may_be_over() -> None:
    slurm = FakeSlurm({"7": running()}, accounting={"7": (LIFE,)})
    assert ask(slurm).lives == ()
    slurm.configured = replace(slurm.configured, accounting=True)
    assert ask(slurm, afterwards=False).lives == ()
    assert ask(slurm).lives == (LIFE,)


def test_without_slurm_nothing_is_said() -> None:
    assert ask(None) == SlurmsWord()
