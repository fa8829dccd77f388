"""Laws of the grace ladder."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.signals.ladder import Asked, Measured, SlurmTimes, climb

seconds = st.floats(0, 1e6)
perhaps = st.none() | seconds
times = st.builds(SlurmTimes, kill_wait_s=seconds, grace_time_s=seconds, end_s=perhaps, start_s=perhaps)
measured = st.builds(Measured, step_s=perhaps, save_s=perhaps)
asked = st.builds(Asked, stop_before_end_s=perhaps, stop_timeout_s=perhaps)


@given(times, measured, asked)
def test_no_deadline_is_negative(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    ladder = climb(times, measured, asked)
    assert all(rung.seconds >= 0 for rung in ladder.rungs)
    assert min(ladder.after_termination_s, ladder.after_warning_s) > 0


@given(times, measured, seconds)
def test_a_longer_grant_never_shortens_the_stop(times: SlurmTimes, measured: Measured, more: float) -> None:
    longer = SlurmTimes(times.kill_wait_s + more, times.grace_time_s + more, times.end_s, times.start_s)
    assert climb(longer, measured, Asked()).after_termination_s >= climb(times, measured, Asked()).after_termination_s


@given(times, measured)
def test_the_ranks_are_never_given_more_than_slurm_grants(times: SlurmTimes, measured: Measured) -> None:
    granted = times.kill_wait_s + times.grace_time_s
    assert climb(times, measured, Asked()).after_termination_s <= max(granted, times.grace_time_s + 1)


@given(seconds, st.floats(0, 1e6), measured)
def test_a_computed_lead_takes_at_most_a_quarter_of_the_time(start: float, length: float, measured: Measured) -> None:
    ladder = climb(SlurmTimes(30, 0, start + length, start), measured, Asked())
    assert 0 <= ladder.stop_before_end_s <= length / 4 + 1e-6


@given(times, measured, asked)
def test_leaving_takes_at_most_a_quarter_of_the_promise(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    assert climb(times, measured, asked).leave_s <= max(1.0, times.kill_wait_s / 4)


@given(times, measured, asked)
def test_torchrun_is_never_less_patient_than_we_are(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    ladder = climb(times, measured, asked)
    assert ladder.shutdown_timeout_s >= ladder.after_termination_s


def test_a_save_that_takes_longer_than_the_grace_is_named() -> None:
    ladder = climb(SlurmTimes(30, 0, None, None), Measured(step_s=1, save_s=120), Asked())
    assert any("KillWait 30 s" in sentence for sentence in ladder.inversions)


def test_a_lead_that_is_too_short_is_named() -> None:
    ladder = climb(SlurmTimes(300, 300, 10000, 0), Measured(step_s=1, save_s=120), Asked(stop_before_end_s=30))
    assert any("--stop-before-end" in sentence for sentence in ladder.inversions)
