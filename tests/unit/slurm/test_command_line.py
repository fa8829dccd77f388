"""Slurm's commands, with answers as Slurm 22.05 gives them."""

import pytest

from slurm_resilience.command import Completed
from slurm_resilience.errors import CommandMissing, CommandTimedOut, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import JobRef, JobState
from slurm_resilience.slurm.command_line import _FIELDS, CommandLineSlurm

JOB = JobRef("37316000")


def line(**changed: str) -> str:
    values = {
        "StateCompact": "R",
        "State": "RUNNING",
        "Reason": "None",
        "RestartCnt": "0",
        "Requeue": "1",
        "BatchFlag": "1",
        "StartTime": "2026-11-29T20:55:24",
        "EndTime": "2027-11-29T20:55:24",
        "PreemptTime": "N/A",
        "Partition": "low",
        "PriorityLong": "4294901759",
        "exit_code": "0",
        "BatchHost": "n1",
        "NodeList": "n[1-2]",
    } | changed
    return "".join(values[name].ljust(width) for name, width in _FIELDS) + "\n"


class Answers:
    """A runner that gives what it is told to give, and remembers what it was asked."""

    def __init__(self, *answers: Completed | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.environments: list[dict[str, str]] = []

    def __call__(self, argv: list[str], *, timeout_s: float, env: dict[str, str]) -> Completed:
        self.asked.append(argv)
        self.environments.append(env)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(*answers: Completed | Exception) -> tuple[CommandLineSlurm, Answers]:
    runner = Answers(*answers)
    return CommandLineSlurm(environment={"PATH": "/bin", "SQUEUE_FORMAT": "%j"}, runner=runner), runner


def out(text: str) -> Completed:
    return Completed(("squeue",), 0, text, "")


def err(text: str, code: int = 1) -> Completed:
    return Completed(("scontrol",), code, "", text)


def test_a_running_job_is_read_field_by_field() -> None:
    slurm, _ = client(out(line()))
    record = slurm.job(JOB)
    assert record is not None
    assert (record.state, record.restarts, record.requeue, record.batch) == (JobState.RUNNING, 0, True, True)
    assert record.end_s is not None
    assert record.preempted_s is None


def test_the_users_own_formats_do_not_reach_squeue() -> None:
    slurm, runner = client(out(line()))
    slurm.job(JOB)
    assert "SQUEUE_FORMAT" not in runner.environments[0]


@pytest.mark.parametrize(
    ("changed", "state", "completing"),
    [
        ({"StateCompact": "CG", "State": "COMPLETING"}, JobState.UNKNOWN, True),
        ({"StateCompact": "PD", "State": "PENDING"}, JobState.PENDING, False),
        ({"StateCompact": "RH", "State": "REQUEUE_HOLD"}, JobState.PENDING, False),
        ({"StateCompact": "CF", "State": "CONFIGURING"}, JobState.RUNNING, False),
        ({"StateCompact": "SI", "State": "SIGNALING"}, JobState.RUNNING, False),
        ({"StateCompact": "XX", "State": "A_NEW_WORD"}, JobState.UNKNOWN, False),
    ],
)
def test_a_word_we_do_not_know_is_unknown_and_never_finished(
    changed: dict[str, str], state: JobState, completing: bool
) -> None:
    slurm, _ = client(out(line(**changed)))
    record = slurm.job(JOB)
    assert record is not None
    assert (record.state, record.completing) == (state, completing)


@pytest.mark.parametrize(
    ("words", "code", "number"),
    [("0", 0, 0), ("768", 3, 0), ("9", 0, 9), ("143", 0, 15), ("3:0", 3, 0), ("0:9", 0, 9), ("n/a", None, None)],
)
def test_the_exit_is_read_from_the_status_of_wait_and_from_pairs(
    words: str, code: int | None, number: int | None
) -> None:
    slurm, _ = client(out(line(StateCompact="F", State="FAILED", exit_code=words)))
    record = slurm.job(JOB)
    assert record is not None
    assert (record.exit_code, record.exit_signal) == (code, number)


def test_a_held_job_is_seen_by_its_priority() -> None:
    slurm, _ = client(out(line(StateCompact="PD", State="PENDING", PriorityLong="0", Reason="JobHeldAdmin")))
    record = slurm.job(JOB)
    assert record is not None
    assert record.held


def test_a_job_that_the_controller_does_not_know_is_none() -> None:
    slurm, _ = client(err("slurm_load_jobs error: Invalid job id specified"))
    assert slurm.job(JOB) is None


@pytest.mark.parametrize(
    "words",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "Unexpected message received for job 5",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
    ],
)
def test_a_silent_controller_is_unavailable_whatever_words_it_takes(words: str) -> None:
    slurm, _ = client(err(words))
    with pytest.raises(SlurmUnavailable):
        slurm.requeue(JOB)


def test_no_answer_in_time_and_no_program_are_unavailable() -> None:
    slurm, _ = client(CommandTimedOut("late"), CommandMissing("none"))
    for _ in range(2):
        with pytest.raises(SlurmUnavailable):
            slurm.job(JOB)


def test_a_no_is_a_no() -> None:
    slurm, _ = client(err("Job is pending execution for job 5"))
    with pytest.raises(SlurmRejected, match="pending execution"):
        slurm.requeue(JOB)


def test_an_answer_without_a_restart_count_is_not_guessed_at() -> None:
    slurm, _ = client(out("something else entirely\n"))
    with pytest.raises(SlurmUnparsable):
        slurm.job(JOB)


CONFIGURATION = """Configuration data as of 2026-11-29T20:55:24
ClusterName             = sandbox-vyt
JobRequeue              = 1
KillWait                = 10 sec
OverTimeLimit           = 0 min
PreemptMode             = REQUEUE
ProctrackType           = proctrack/linuxproc
RequeueExit             = 85,90-92
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at vm is UP
"""


def test_the_configuration_is_read_with_units() -> None:
    slurm, _ = client(out(CONFIGURATION))
    read = slurm.configuration()
    assert (read.kill_wait_s, read.cluster, read.requeue_exit) == (10, "sandbox-vyt", (85, 90, 91, 92))
    assert read.max_batch_requeue is None


def test_a_configuration_without_killwait_is_not_guessed_at() -> None:
    slurm, _ = client(out("ClusterName = x\n"))
    with pytest.raises(SlurmUnparsable, match="KillWait"):
        slurm.configuration()


def test_a_partitions_grace_time() -> None:
    slurm, _ = client(out("PartitionName=low GraceTime=15 Hidden=NO"))
    assert slurm.partition("low").grace_time_s == 15
