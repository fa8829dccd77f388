"""Each cause can be reached, and what it takes."""

from __future__ import annotations

import pytest

from slurm_resilience.agent.supervision import Kill, State
from slurm_resilience.agent.verdict import judge
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.preflight_verdict import PreflightVerdict, Then
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.diagnosis import diagnose
from slurm_resilience.triage.health_notes import HealthNote, Mode
from tests.unit.triage.ends import FAILED, NOBODY, SILENT, agent, asked, evidence, life, note, record

HUNG = judge(State(kill=Kill.HUNG, lost="rank 3 (process 4711) died"), 2)
MINE, ROOT = 1001, 0
OVER = {"start_s": 100.0, "end_s": 100.0}

TABLE: list[tuple[dict[str, object], Cause, str]] = [
    ({"training_finished": True}, Cause.FINISHED, "its own end"),
    ({}, Cause.FINISHED, "on every node"),
    # Preempted, in each mode.
    (
        {"record": record(preempted_s=90.0), "agents": asked("TERMINATION"), "preempt_mode": "REQUEUE"},
        Cause.PREEMPTED,
        "being preempted (mode REQUEUE)",
    ),
    (
        {"record": record(restarts=1), "in_grace": True, "agents": SILENT, "preempt_mode": "REQUEUE"},
        Cause.PREEMPTED,
        "(mode REQUEUE) and Slurm has queued it again",
    ),
    (
        {"record": record(state=JobState.PREEMPTED), "agents": SILENT, "preempt_mode": "CANCEL"},
        Cause.PREEMPTED,
        "(mode CANCEL)",
    ),
    (
        {"record": record(state=JobState.PREEMPTED, requeue=False), "agents": SILENT, "preempt_mode": "REQUEUE"},
        Cause.PREEMPTED,
        "(mode CANCEL)",
    ),
    (
        # What was recorded of a --no-requeue job at the end of its grace: both times are moved to that moment.
        {
            "record": record(state=JobState.UNKNOWN, completing=True, requeue=False, end_s=90.0, preempted_s=90.0),
            "agents": asked("TERMINATION"),
        },
        Cause.PREEMPTED,
        "Slurm doesn't queue it again",
    ),
    (
        {"record": record(state=JobState.SUSPENDED), "agents": SILENT, "preempt_mode": "GANG,SUSPEND"},
        Cause.PREEMPTED,
        "mode SUSPEND",
    ),
    (
        {"record": None, "lives": (life(JobState.PREEMPTED), life(JobState.RUNNING)), "agents": SILENT},
        Cause.PREEMPTED,
        "was preempted",
    ),
    ({"record": record(state=JobState.TIMEOUT), "agents": SILENT}, Cause.TIME_LIMIT, "its time limit"),
    ({"record": None, "lives": (life(JobState.TIMEOUT),), "agents": SILENT}, Cause.TIME_LIMIT, "its time limit"),
    ({"record": record(state=JobState.NODE_FAIL), "agents": SILENT}, Cause.NODE_FAILURE, "a node of job 7"),
    (
        {"record": record(restarts=1), "lives": (life(JobState.NODE_FAIL), life(JobState.PENDING)), "agents": SILENT},
        Cause.NODE_FAILURE,
        "a node of the job failed",
    ),
    (
        {"record": record(restarts=1), "agents": SILENT, "log_lines": ("srun: error: Node failure on n2",)},
        Cause.NODE_FAILURE,
        "Node failure on n2",
    ),
    (
        {"agents": (), "command_code": 1, "health": (HealthNote("n2", Mode.EXCLUDE, ("gpu-ecc: 3 errors",)),)},
        Cause.NODE_FAILURE,
        "node n2 is unhealthy: gpu-ecc: 3 errors",
    ),
    ({"record": None, "restarted_by_slurm": True, "agents": SILENT}, Cause.NODE_FAILURE, "a node of it failed"),
    ({"agents": asked("WARNING", "SIGUSR1 came")}, Cause.WARNED, "SIGUSR1 came"),
    ({"agents": SILENT, "supervisor_signals": ("SIGUSR2",)}, Cause.WARNED, "a warning signal"),
    ({"record": record(restarts=1), "agents": asked("TERMINATION")}, Cause.REQUEUED_BY_HAND, "requeued while it ran"),
    (
        {"record": record(restarts=1), "lives": (life(JobState.CANCELLED), life(JobState.PENDING)), "agents": SILENT},
        Cause.REQUEUED_BY_HAND,
        "requeued while it ran",
    ),
    ({"record": record(state=JobState.CANCELLED), "agents": SILENT}, Cause.CANCELLED, "was cancelled"),
    ({"record": record(state=JobState.CANCELLED, nodes="", **OVER), **NOBODY}, Cause.CANCELLED, "was cancelled"),
    (
        {
            "record": record(state=JobState.CANCELLED),
            "lives": (life(JobState.CANCELLED, cancelled_by=MINE),),
            "user_id": MINE,
            "agents": SILENT,
        },
        Cause.CANCELLED,
        "by user 1001",
    ),
    ({"record": record(state=JobState.DEADLINE), "agents": SILENT}, Cause.CANCELLED, "--deadline"),
    (
        {
            "record": record(state=JobState.CANCELLED),
            "lives": (life(JobState.CANCELLED, cancelled_by=ROOT),),
            "user_id": MINE,
            "agents": SILENT,
        },
        Cause.CANCELLED_BY_ADMIN,
        "by user 0, and it is user 1001's",
    ),
    (
        {"record": None, "lives": (life(JobState.CANCELLED, cancelled_by=ROOT),), "user_id": MINE, "agents": SILENT},
        Cause.CANCELLED_BY_ADMIN,
        "by user 0",
    ),
    (
        {"record": None, "lives": (life(JobState.CANCELLED, cancelled_by=ROOT),), "agents": SILENT},
        Cause.CANCELLED,
        "by user 0",
    ),
    ({"agents": asked("OPERATOR", "SIGINT came")}, Cause.OPERATOR_STOP, "SIGINT came"),
    ({"record": record(state=JobState.OUT_OF_MEMORY), "agents": SILENT}, Cause.OUT_OF_MEMORY, "ran out of memory"),
    ({"agents": FAILED, "command_code": 253}, Cause.OUT_OF_MEMORY, "srun left with 253"),
    (
        {
            "agents": SILENT,
            "command_code": 137,
            "exit_notes": (note(9),),
            "log_lines": ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks",),
        },
        Cause.OUT_OF_MEMORY,
        "task 0 on n1 was killed by SIGKILL, and the log says",
    ),
    ({"agents": FAILED, "command_code": 1, "rank_errors": ("rank-00000: MemoryError",)}, Cause.OUT_OF_MEMORY, "memory"),
    (
        {"record": record(state=JobState.FAILED, exit_code=0, exit_signal=125), "agents": (), "command_code": None},
        Cause.OUT_OF_MEMORY,
        "too little memory",
    ),
    ({"agents": SILENT, "command_code": 137, "exit_notes": (note(9),)}, Cause.CRASHED, "nothing says by whom"),
    ({"agents": SILENT, "command_code": 137, "log_lines": ("srun: error: n1: task 0: Killed",)}, Cause.CRASHED, "n1"),
    ({"agents": FAILED, "command_code": 139, "exit_notes": (note(11),)}, Cause.CRASHED, "SIGSEGV"),
    (
        {"agents": (agent(0, Outcome.NOT_STARTED, why="no python"), agent(1)), "command_code": 127},
        Cause.CRASHED,
        "no py",
    ),
    (
        {"agents": (agent(0, HUNG.outcome, why=HUNG.why, ended_s=30.0), agent(1)), "command_code": 137},
        Cause.HUNG,
        "rank 3 (process 4711) died",
    ),
    (
        {
            "agents": (agent(0, Outcome.FAILED, ended_s=9.0), agent(1, Outcome.FAILED, ended_s=9.0)),
            "command_code": 1,
            "rank_errors": (
                "rank-00002: RuntimeError: [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8)",
                "rank-00001: RuntimeError: NCCL communicator was aborted on rank 1.",
            ),
        },
        Cause.HUNG,
        "a rank waited in vain",
    ),
    (
        {"agents": FAILED, "command_code": 1, "rank_errors": ("rank-00000: OSError: [Errno 116] Stale file handle",)},
        Cause.STORAGE,
        "a file system said no",
    ),
    ({"agents": SILENT, "command_code": 1, "saves_failed": ("n1: Disk quota exceeded",)}, Cause.STORAGE, "quota"),
    (
        {"record": record(state=JobState.PENDING, restarts=1, reason="launch_failed_requeued_held"), **NOBODY},
        Cause.LAUNCH_FAILED,
        "could not start job 7",
    ),
    (
        {"record": record(state=JobState.PENDING, reason="launch failure limit exceeded requeued held"), **NOBODY},
        Cause.LAUNCH_FAILED,
        "limit exceeded",
    ),
    ({"record": record(state=JobState.FAILED, reason="JobLaunchFailure"), **NOBODY}, Cause.LAUNCH_FAILED, "JobLaunch"),
    ({"record": record(state=JobState.BOOT_FAIL), **NOBODY}, Cause.LAUNCH_FAILED, "did not boot"),
    ({"record": record(state=JobState.FAILED, reason="Prolog failed"), **NOBODY}, Cause.LAUNCH_FAILED, "Prolog"),
    ({"record": record(state=JobState.CANCELLED, **OVER), **NOBODY}, Cause.NEVER_STARTED, "nothing says by whom"),
    ({"record": record(state=JobState.FAILED, exit_code=1, **OVER), **NOBODY}, Cause.NEVER_STARTED, "before anything"),
    (
        {"record": None, "lives": (life(JobState.CANCELLED, start_s=None, end_s=None),), **NOBODY},
        Cause.NEVER_STARTED,
        "before anything could run",
    ),
    (
        {"record": record(state=JobState.PENDING, reason="DependencyNeverSatisfied"), **NOBODY},
        Cause.DEPENDENCY_NEVER,
        "it never starts",
    ),
    (
        {"record": record(state=JobState.CANCELLED, reason="DependencyNeverSatisfied", nodes=""), **NOBODY},
        Cause.DEPENDENCY_NEVER,
        "it never starts",
    ),
    (
        {"record": record(state=JobState.FAILED, exit_signal=9), **NOBODY},
        Cause.SUPERVISOR_DIED,
        "supervisor was killed",
    ),
    (
        {"record": record(state=JobState.FAILED, exit_signal=10, reason="JobLaunchFailure"), **NOBODY},
        Cause.SUPERVISOR_DIED,
        "supervisor was killed",
    ),
    (
        {"preflight": PreflightVerdict(Then.REFUSE, "n1: storage: /scratch/run can't be written"), **NOBODY},
        Cause.PREFLIGHT,
        "can't be written",
    ),
    ({"agents": asked("FENCED")}, Cause.FENCED, "newer attempt"),
    ({"agents": (), "record": None}, Cause.UNKNOWN, "no node agent left a record"),
    ({"agents": asked("PEER_FAILED"), "command_code": 75}, Cause.UNKNOWN, "left in order"),
    ({"agents": (), "command_code": None}, Cause.UNKNOWN, "nothing says"),
]


@pytest.mark.parametrize(("changed", "cause", "words"), TABLE)
def test_the_cause_and_its_reason(changed: dict[str, object], cause: Cause, words: str) -> None:
    diagnosis = diagnose(evidence(**changed))
    assert (diagnosis.cause, words in diagnosis.because) == (cause, True), diagnosis


def test_no_cause_is_out_of_reach() -> None:
    assert {cause for _, cause, _ in TABLE} == set(Cause)
