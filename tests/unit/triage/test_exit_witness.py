"""Whose a SIGKILL was, and which task's end came first."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.diagnosis import diagnose
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.exit_witness import Killer, first_failure, killer_of
from slurm_resilience.triage.health_notes import HealthNote, Mode
from tests.unit.triage.ends import SILENT, agent, evidence, note, record

KILL, TERM, SEGV, ABRT, EXIT_3 = 9, 15, 11, 6, 3 << 8
OOM_LINE = ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks",)
HEARD_TERM = (agent(0, Outcome.RUNNING, signals=(("SIGTERM", 50.0),)), agent(1, Outcome.RUNNING))


@pytest.mark.parametrize(
    ("changed", "killer", "how"),
    [
        ({"exit_notes": (note(KILL, time_s=80.0),), "agents": HEARD_TERM}, Killer.SLURM, "30 s after its SIGTERM"),
        # Before Slurm had said a word: somebody else.
        ({"exit_notes": (note(KILL, time_s=49.0),), "agents": HEARD_TERM}, Killer.NOBODY_KNOWS, "nothing says by whom"),
        ({"exit_notes": (note(KILL, time_s=60.0),), "end_s": 60.0}, Killer.SLURM, "the job's time was over"),
        (
            {"exit_notes": (note(KILL, time_s=60.0),), "record": record(state=JobState.CANCELLED, end_s=30.0)},
            Killer.SLURM,
            "which was ending the job",
        ),
        (
            {
                "exit_notes": (note(KILL, time_s=60.0),),
                "record": record(state=JobState.UNKNOWN, completing=True, end_s=30.0),
            },
            Killer.SLURM,
            "which was ending the job",
        ),
        # A batch script that had left by itself has ended nothing.
        (
            {"exit_notes": (note(KILL, time_s=60.0),), "record": record(state=JobState.FAILED, end_s=30.0)},
            Killer.NOBODY_KNOWS,
            "nothing says by whom",
        ),
        ({"exit_notes": (note(KILL),), "log_lines": OOM_LINE}, Killer.KERNEL, "the log says"),
        (
            {"exit_notes": (note(KILL),), "record": record(state=JobState.OUT_OF_MEMORY, end_s=10.0)},
            Killer.KERNEL,
            "Slurm saw it",
        ),
        ({"exit_notes": (note(KILL),), "command_code": 253}, Killer.KERNEL, "srun says"),
        (
            {
                "exit_notes": (note(KILL),),
                "health": (HealthNote("n1", Mode.WARN, ("dmesg: Out of memory: Killed process 4711 (python)",)),),
            },
            Killer.KERNEL,
            "a check of node n1 says",
        ),
        ({"exit_notes": (note(KILL), note(SEGV, 1, time_s=5.0))}, Killer.PEER, "after task 1 on n2 had ended first"),
        # One of them ran out of memory; the other was ended because of it.
        (
            {"exit_notes": (note(KILL), note(KILL, 1, time_s=5.0)), "log_lines": OOM_LINE},
            Killer.PEER,
            "after task 1 on n2",
        ),
        ({"exit_notes": (note(KILL),)}, Killer.NOBODY_KNOWS, "nothing says by whom"),
    ],
)
def test_whose_a_kill_was(changed: dict[str, object], killer: Killer, how: str) -> None:
    told = evidence(**{"agents": SILENT, "command_code": 137, "record": None, **changed})
    kill = killer_of(told.exit_notes[0], told)
    assert kill is not None
    assert (kill.by, how in kill.how) == (killer, True), kill


def test_the_end_of_a_command_that_its_agent_handed_on_counts_as_its_own() -> None:
    oom = evidence(agents=SILENT, exit_notes=(note(137 << 8),), log_lines=OOM_LINE, command_code=137)
    assert diagnose(oom).cause is Cause.OUT_OF_MEMORY
    assert "task 0 on n1 left with 137: its command was ended by SIGKILL, and the log says" in diagnose(oom).because
    fault = evidence(agents=SILENT, exit_notes=(note(143 << 8, 0), note(139 << 8, 1)), command_code=139)
    assert diagnose(fault).because == "task 1 on n2 left with 139: its command was ended by SIGSEGV"


def test_what_left_by_itself_was_killed_by_nobody() -> None:
    told = evidence(exit_notes=(note(EXIT_3), note(TERM, 1)))
    assert [killer_of(each, told) for each in told.exit_notes] == [None, None]


def test_tasks_of_one_node_that_the_kernel_ends_together_are_all_its() -> None:
    both = (note(KILL, 0, time_s=20.0), note(KILL, 0, time_s=20.5))
    told = evidence(agents=SILENT, exit_notes=both, log_lines=OOM_LINE)
    assert [kill.by for kill in (killer_of(each, told) for each in both) if kill is not None] == [Killer.KERNEL] * 2


@pytest.mark.parametrize(
    ("notes", "first"),
    [
        # Clocks of two nodes tell no order within two seconds: who can't be a consequence came first.
        ((note(KILL, 0, time_s=10.0), note(SEGV, 1, time_s=11.0)), 1),
        ((note(ABRT, 0, time_s=10.0), note(EXIT_3, 1, time_s=11.0)), 1),
        ((note(KILL, 0, time_s=10.0), note(SEGV, 1, time_s=13.0)), 0),
        ((note(EXIT_3, 0, time_s=10.0), note(EXIT_3, 1, time_s=11.0)), 0),
        ((note(0, 0, time_s=1.0), note(75 << 8, 1, time_s=2.0)), None),
    ],
)
def test_which_end_came_first(notes: tuple[ExitNote, ...], first: int | None) -> None:
    found = first_failure(evidence(exit_notes=notes))
    assert (None if found is None else found.rank) == first


def test_on_one_node_the_clock_is_right_about_the_order() -> None:
    killed, faulted = note(KILL, 0, time_s=10.0), note(SEGV, 0, time_s=10.5)
    assert first_failure(evidence(exit_notes=(faulted, killed))) == killed


def test_a_kill_at_the_end_of_the_time_is_the_time_limit_where_nobody_says_more() -> None:
    told = evidence(agents=SILENT, exit_notes=(note(KILL, time_s=90.0),), end_s=80.0, record=None, command_code=137)
    diagnosis = diagnose(told)
    assert (diagnosis.cause, "the job's time was over" in diagnosis.because) == (Cause.TIME_LIMIT, True)


def test_a_kill_by_slurm_leaves_the_reason_to_slurm() -> None:
    told = evidence(
        agents=SILENT,
        exit_notes=(note(KILL, time_s=90.0),),
        record=record(state=JobState.NODE_FAIL, end_s=60.0),
        command_code=137,
    )
    diagnosis = diagnose(told)
    assert diagnosis.cause is Cause.NODE_FAILURE
    assert diagnosis.outranked == ()


UNHEALTHY = HealthNote("n2", Mode.EXCLUDE, ("gpu-ecc: 3 errors",))
DOUBTFUL = HealthNote("n1", Mode.WARN, ("disk: nearly full",))


def test_a_node_that_lets_no_task_start_is_the_cause_and_is_to_be_avoided() -> None:
    told = evidence(agents=(agent(0, Outcome.STOPPED, stop_reason="PEER_FAILED"),), health=(DOUBTFUL, UNHEALTHY))
    diagnosis = diagnose(told)
    assert diagnosis.cause is Cause.NODE_FAILURE
    assert diagnosis.because == "node n2 is unhealthy: gpu-ecc: 3 errors"
    assert diagnosis.avoid == ("n2",)
    assert diagnosis.because in diagnosis.evidence
    assert "nearly full" not in "".join(diagnosis.evidence)


def test_a_warning_about_a_node_is_no_cause() -> None:
    diagnosis = diagnose(evidence(health=(DOUBTFUL,)))
    assert (diagnosis.cause, diagnosis.avoid) == (Cause.FINISHED, ())


def test_slurms_word_and_a_persons_outrank_an_unhealthy_node_which_is_avoided_all_the_same() -> None:
    for state, cause in ((JobState.PREEMPTED, Cause.PREEMPTED), (JobState.CANCELLED, Cause.CANCELLED)):
        diagnosis = diagnose(evidence(agents=SILENT, record=record(state=state), health=(UNHEALTHY,)))
        assert (diagnosis.cause, diagnosis.avoid) == (cause, ("n2",))
