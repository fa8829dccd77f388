"""Laws of the grace ladder, and its table of what can't work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.signals.ladder import Asked, Ladder, Measured, SlurmTimes, climb, lead_s
from slurm_resilience.signals.ladder_terms import EXIT_BARRIER_S
from slurm_resilience.signals.user_signal import UserSignal

seconds = st.floats(0, 1e6)
perhaps = st.none() | seconds
signals = st.builds(
    UserSignal, st.sampled_from(["USR1", "TERM", "CONT"]), seconds, st.booleans(), st.just("#SBATCH --signal")
)
times = st.builds(
    SlurmTimes,
    kill_wait_s=seconds,
    grace_time_s=seconds,
    end_s=perhaps,
    start_s=perhaps,
    over_time_limit_s=seconds,
    preempt_mode=st.sampled_from(["", "REQUEUE", "CANCEL", "OFF", "GANG,SUSPEND"]),
    user_signal_first=st.booleans(),
    user_signal=st.none() | signals,
)
limited = st.builds(
    lambda times, start_s, s: replace(times, start_s=start_s, end_s=start_s + s), times, seconds, seconds
)
measured = st.builds(Measured, step_s=perhaps, save_s=perhaps)
asked = st.builds(Asked, stop_before_end_s=perhaps, stop_timeout_s=perhaps, wait_s=perhaps)
USR1 = UserSignal("USR1", 90, batch_shell=False, source="#SBATCH --signal")
HOUR = SlurmTimes(30, 60, 3600, 0)


def climbed(times: SlurmTimes, measured: Measured, asked: Asked) -> Ladder:
    """Where it is not refused."""
    whole_s, lead = times.whole_s, asked.stop_before_end_s
    assume(whole_s is None or lead is None or lead <= whole_s)
    return climb(times, measured, asked)


def deadlines(ladder: Ladder) -> list[float]:
    return [
        ladder.after_termination_s,
        ladder.after_warning_s,
        ladder.stop_before_end_s,
        ladder.leave_s,
        ladder.peer_failed_s,
        ladder.shutdown_timeout_s,
        ladder.wait_s,
    ]


@given(times, measured, asked)
def test_no_deadline_is_negative_and_all_are_finite(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    ladder = climbed(times, measured, asked)
    assert all(rung.seconds >= 0 for rung in ladder.rungs)
    assert all(0 <= deadline_s < math.inf for deadline_s in deadlines(ladder))
    assert min(ladder.after_termination_s, ladder.after_warning_s) > 0


@given(times, measured, asked, seconds)
def test_a_longer_grant_never_shortens_a_deadline(
    times: SlurmTimes, measured: Measured, asked: Asked, more: float
) -> None:
    longer = replace(times, kill_wait_s=times.kill_wait_s + more, grace_time_s=times.grace_time_s + more)
    before, after = deadlines(climbed(times, measured, asked)), deadlines(climb(longer, measured, asked))
    assert all(later >= earlier for earlier, later in zip(before, after, strict=True))


@given(limited, measured, seconds)
def test_a_longer_time_limit_never_shortens_the_lead(times: SlurmTimes, measured: Measured, more: float) -> None:
    longer = replace(times, end_s=(times.end_s or 0) + more)
    assert lead_s(longer, measured, Asked())[0] >= lead_s(times, measured, Asked())[0]


@given(times, measured, asked, seconds)
def test_a_longer_save_never_shortens_anything(
    times: SlurmTimes, measured: Measured, asked: Asked, more: float
) -> None:
    known = replace(measured, save_s=measured.save_s or 0.0)
    slower = replace(known, save_s=(known.save_s or 0.0) + more)
    before, after = deadlines(climbed(times, known, asked)), deadlines(climb(times, slower, asked))
    assert all(later >= earlier for earlier, later in zip(before, after, strict=True))


@given(times, measured)
def test_the_ranks_are_never_given_more_than_slurm_grants(times: SlurmTimes, measured: Measured) -> None:
    granted = times.kill_wait_s + times.used_grace_s
    assert climb(times, measured, Asked()).after_termination_s <= max(granted, times.used_grace_s + 1)


@given(seconds, st.floats(0, 1e6), measured)
def test_a_computed_lead_takes_at_most_a_quarter_of_the_time(start: float, length: float, measured: Measured) -> None:
    ladder = climb(SlurmTimes(30, 0, start + length, start), measured, Asked())
    assert 0 <= ladder.stop_before_end_s <= length / 4 + 1e-6


@given(times, measured, asked)
def test_leaving_takes_at_most_a_quarter_of_the_promise(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    assert climbed(times, measured, asked).leave_s <= max(1.0, times.kill_wait_s / 4)


@given(times, measured, asked)
def test_torchrun_is_never_less_patient_than_we_are(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    ladder = climbed(times, measured, asked)
    assert ladder.shutdown_timeout_s >= max(ladder.after_termination_s, ladder.after_warning_s)


@given(times, measured, asked)
def test_srun_waits_for_the_longest_stop_a_save_and_torchruns_barrier(
    times: SlurmTimes, measured: Measured, asked: Asked
) -> None:
    ladder = climbed(times, measured, asked)
    longest_s = max(ladder.after_termination_s, ladder.after_warning_s, measured.save_s or 0.0, EXIT_BARRIER_S)
    assert ladder.wait_s > longest_s


@given(times, measured, asked)
def test_every_sentence_is_one_sentence_and_said_once(times: SlurmTimes, measured: Measured, asked: Asked) -> None:
    sentences = climbed(times, measured, asked).inversions
    assert len(set(sentences)) == len(sentences)
    assert all(sentence and "\n" not in sentence and not sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize(
    ("times", "measured", "asked", "named"),
    [
        (SlurmTimes(30, 0, None, None), Measured(1, 120), Asked(), "there is no GraceTime, only KillWait 30 s"),
        (SlurmTimes(30, 60, None, None), Measured(1, 120), Asked(), "GraceTime 60 s, KillWait 30 s"),
        (SlurmTimes(300, 300, 10000, 0), Measured(1, 120), Asked(stop_before_end_s=30), "--stop-before-end"),
        (HOUR, Measured(1, 20), Asked(stop_timeout_s=1, leave_s=0), ""),
        (SlurmTimes(5, 0, None, None), Measured(1, 60), Asked(stop_timeout_s=5), "torchrun ends its ranks after"),
        (HOUR, Measured(1, 20), Asked(wait_s=5), "srun's --wait=5 kills the other nodes"),
        (HOUR, Measured(1, 20), Asked(wait_s=0), ""),
        (replace(HOUR, preempt_mode="GANG,SUSPEND"), Measured(), Asked(), "suspends this job without a word"),
        (replace(HOUR, user_signal=USR1), Measured(1, 20), Asked(), ""),
        (replace(HOUR, user_signal=replace(USR1, lead_s=20)), Measured(1, 60), Asked(), "comes too late"),
        (replace(HOUR, user_signal=replace(USR1, lead_s=0)), Measured(), Asked(), "never sends it at the time limit"),
        (replace(HOUR, end_s=120.0, user_signal=USR1), Measured(), Asked(), "as soon as the job starts"),
        (replace(HOUR, user_signal=replace(USR1, name="CONT")), Measured(), Asked(), "does not listen to CONT"),
        (replace(HOUR, user_signal=replace(USR1, name="TERM")), Measured(), Asked(), "from a preemption's SIGTERM"),
        (
            replace(HOUR, user_signal=replace(USR1, name="TERM", batch_shell=True)),
            Measured(),
            Asked(),
            "only KillWait is left",
        ),
        (replace(HOUR, user_signal=USR1, user_signal_first=True), Measured(), Asked(), "no SIGTERM comes before"),
    ],
)
def test_what_cannot_work_is_named(times: SlurmTimes, measured: Measured, asked: Asked, named: str) -> None:
    sentences = climb(times, measured, asked).inversions
    if named:
        assert any(named in sentence for sentence in sentences), sentences
    else:
        assert sentences == ()


def test_a_stop_that_would_begin_before_the_job_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="longer than the job's whole time"):
        climb(SlurmTimes(30, 0, 600, 0), Measured(), Asked(stop_before_end_s=601))
    climb(SlurmTimes(30, 0, 600, 0), Measured(), Asked(stop_before_end_s=600))


@pytest.mark.parametrize(("mode", "used_s"), [("REQUEUE", 40), ("CANCEL", 40), ("", 40), ("OFF", 0), ("SUSPEND", 0)])
def test_only_a_preemption_that_ends_the_job_grants_its_grace(mode: str, used_s: float) -> None:
    ladder = climb(SlurmTimes(30, 40, None, None, preempt_mode=mode), Measured(), Asked())
    assert ladder.after_termination_s == used_s + 27


def test_every_rung_has_its_line() -> None:
    names = {rung.name for rung in climb(replace(HOUR, user_signal=USR1), Measured(), Asked()).rungs}
    assert {"--signal USR1", "OverTimeLimit", "srun --wait", "torchrun's shutdown", "torchrun's exit barrier"} <= names
