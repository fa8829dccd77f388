"""Outputs alone: what srun-resilient has said of an end is believed, and what it quotes is nobody's word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Account, Sure, Verdict
from slurm_resilience.triage.account.case import account_of_files
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.our_word import our_verdict
from slurm_resilience.triage.diagnosis import diagnose
from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.known.table import TABLE as FAILURES
from slurm_resilience.triage.known.table import known
from slurm_resilience.triage.reading.read_logs import read_logs
from tests.unit.triage.ends import evidence
from tests.unit.triage.test_every_cause import TABLE

BEGUN = "srun-resilient: attempt 1 of run /scratch/run (batch), from the beginning\n"
COUNTED = "(attempt 1 of 2 without progress, crash 1 of 3 since the last progress)"
GIVEN_UP = "srun-resilient: attempt 1 ended and the run will not go on by itself"
SAID_SO = [
    "srun-resilient: attempt 1 ended: {}; the job is queued again",
    "srun-resilient: attempt 1 ended: {}; Slurm starts it again",
    "srun-resilient: attempt 1 ended without a word: {}; the job is queued again",
    f"{GIVEN_UP}: {{}} {COUNTED}; only a batch job with --requeue can be queued again: start it again to go on",
    f"{GIVEN_UP}: crash 3 of 3 since the last progress; the last: {{}}",
    "srun-resilient: the supervisor of attempt 1 was killed; {}: the job is queued again",
]
IN_ITS_OWN_WORDS = frozenset({Cause.FINISHED, Cause.PREFLIGHT})
"""A finished run is told of in another line; preflight's reasons are as many as its checks."""

QUOTES = ("the output says: ", "node n2 is unhealthy: ")
"""What it says in others' words, which stand in the output too, or in a note of the node's."""


def heard(line: str) -> Verdict | None:
    entry = known(line)
    assert entry is not None
    found = re.search(entry.regex, line)
    assert found is not None
    groups = tuple((name, text) for name, text in found.groupdict().items() if text)
    return our_verdict([Event(Place("job.out", 9), line, entry, groups=groups)])


def account(tmp_path: Path, text: str) -> Account:
    path = tmp_path / "job.out"
    path.write_text(text)
    return account_of_files([path], Facts())


@pytest.mark.parametrize("form", SAID_SO)
@pytest.mark.parametrize(("changed", "cause"), [(changed, cause) for changed, cause, _ in TABLE])
def test_a_cause_that_the_supervisor_has_named_is_read_again_from_its_words(
    changed: dict[str, object], cause: Cause, form: str
) -> None:
    because = diagnose(evidence(**changed)).because
    verdict = heard(form.format(because))
    if cause in IN_ITS_OWN_WORDS or (verdict is not None and not verdict.explains):
        return
    if verdict is None or (verdict.implied and verdict.cause is Cause.SUPERVISOR_DIED):
        assert cause is Cause.UNKNOWN or because.startswith(QUOTES), because
        return
    assert verdict.cause is cause, because


def test_what_it_quotes_of_the_output_is_no_event_however_long_the_line_is(tmp_path: Path) -> None:
    quoted = "slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-30T11:59:18 DUE TO TIME LIMIT ***"
    path = tmp_path / "job.out"
    lines = [
        f"srun-resilient: attempt 1 ended: the output says: {'x' * 400} {quoted}; Slurm starts it again",
        f"3: srun-resilient: attempt 1 ended: the output says: {quoted}; Slurm starts it again",
        f"step 4: 10%|# |srun-resilient: attempt 1 ended: a rank raised: {quoted}",
        "srun-resilient: publishing ended with 75 (OSError: [Errno 28] No space left on device)",
    ]
    path.write_text("\n".join(lines) + "\n")
    events = read_logs([path], FAILURES, workers=0).events
    assert {event.known.writer for event in events if event.known is not None} == {"ours"}
    assert [event for event in events if event.known is None] == []


def test_a_preemption_that_it_has_named_is_no_cancellation(tmp_path: Path) -> None:
    told = account(
        tmp_path,
        BEGUN
        + "slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T11:43:15 ***\n"
        + SAID_SO[0].format("job 12 is being preempted (mode REQUEUE)")
        + "\n",
    )
    assert (told.cause, told.sure) == (Cause.PREEMPTED, Sure.CERTAIN)
    assert "srun-resilient" in told.sure_because
    assert told.advice is not None


def test_without_its_word_a_cancelled_step_is_at_most_a_guess(tmp_path: Path) -> None:
    told = account(tmp_path, "slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T11:43:15 ***\n")
    assert told.sure is Sure.GUESS


def test_what_it_only_takes_for_a_preemption_is_likely_and_gives_way_to_slurms_own_word(tmp_path: Path) -> None:
    because = "SIGTERM came before the job's time was over, and Slurm's record names no other reason"
    told = account(tmp_path, BEGUN + SAID_SO[0].format(because) + "\n")
    assert (told.cause, told.sure) == (Cause.PREEMPTED, Sure.LIKELY)
    slurm = "slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-30T11:43:15 DUE TO TIME LIMIT ***\n"
    assert account(tmp_path, BEGUN + slurm + SAID_SO[0].format(because) + "\n").cause is Cause.TIME_LIMIT


def test_a_crash_that_it_could_not_explain_is_explained_by_the_lines(tmp_path: Path) -> None:
    raised = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "train.py", line 3, in <module>\n'
        "[rank3]: IndexError: list index out of range\n"
    )
    told = account(tmp_path, BEGUN + raised + SAID_SO[3].format("on n2: the command left with 1") + "\n")
    assert (told.cause, told.first.rank) == (Cause.CRASHED, 3)
    assert "IndexError" in told.title


def test_the_word_on_an_older_attempt_says_nothing_of_the_newest(tmp_path: Path) -> None:
    first = BEGUN + SAID_SO[0].format("job 12 is being preempted (mode REQUEUE)") + "\n"
    second = "srun-resilient: attempt 2 of run /scratch/run (batch), from step 40\nstep 41 loss 0.1\n"
    assert account(tmp_path, first + second).cause is None
    assert account_of_files([tmp_path / "job.out"], Facts(attempt=1)).cause is Cause.PREEMPTED


def test_an_exception_that_was_caught_before_a_crash_that_it_names_is_not_taken_for_lived_through(
    tmp_path: Path,
) -> None:
    caught = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nKeyError: 7\n'
    text = BEGUN + "step 1 loss 2.0\n" + caught + "step 2 loss 1.0\n"
    assert account(tmp_path, text).cause is None
    assert account(tmp_path, text + SAID_SO[3].format("on n2: the command left with 1") + "\n").cause is Cause.CRASHED


def test_agents_that_say_why_they_stop_are_heard_where_the_supervisors_word_is_missing(tmp_path: Path) -> None:
    told = account(
        tmp_path, BEGUN + "srun-resilient[n0]: the job's time is over in 15 s: asking the ranks to stop, 22 s left\n"
    )
    assert (told.cause, told.sure) == (Cause.TIME_LIMIT, Sure.LIKELY)


TOLD = "srun-resilient[n{}]: SIGTERM came: asking the ranks to stop, 22 s left\n"
KILLED = "srun: error: n1: task 0: Killed\nsrun: error: n2: task 1: Killed\n"


def test_tasks_that_slurm_kills_after_its_sigterm_began_nothing(tmp_path: Path) -> None:
    told = account(tmp_path, BEGUN + TOLD.format(0) + TOLD.format(1) + KILLED)
    assert (told.cause, told.sure) == (Cause.SUPERVISOR_DIED, Sure.GUESS)
    assert told.first.rank is None
    ended = SAID_SO[1].format("job 12 was cancelled") + "\n"
    assert account(tmp_path, BEGUN + TOLD.format(0) + TOLD.format(1) + KILLED + ended).cause is Cause.CANCELLED


def test_ranks_that_were_told_to_stop_and_still_run_are_nobodys_end(tmp_path: Path) -> None:
    assert account(tmp_path, BEGUN + TOLD.format(0) + TOLD.format(1) + "step 4 loss 0.1\n").cause is None
