"""Slurm's commands: which are asked, with what environment, and what their failures mean."""

from collections.abc import Callable

import pytest

from slurm_resilience.command import Completed
from slurm_resilience.errors import CommandMissing, CommandTimedOut, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import JobRef, Submission
from slurm_resilience.slurm.command_line import CommandLineSlurm
from tests.unit.slurm.answers.test_columns import line
from tests.unit.slurm.answers.test_configuration import CONFIGURATION
from tests.unit.slurm.answers.test_json_jobs import FLAT, answer

JOB = JobRef("37316000")


class Answers:
    """A runner that gives what it is told to give, and remembers what it was asked."""

    def __init__(self, *answers: Completed | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.given: list[str | None] = []

    def __call__(
        self,
        argv: list[str],
        *,
        timeout_s: float,
        env: dict[str, str],
        given: str | None = None,
        undecodable: str = "replace",
    ) -> Completed:
        self.asked.append(argv)
        self.environments.append(env)
        self.given.append(given)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


HOSTILE = {
    "SQUEUE_FORMAT": "%j",
    "SINFO_FORMAT": "%N",
    "SACCT_FORMAT": "jobid",
    "SBATCH_PARTITION": "x",
    "SCANCEL_PARTITION": "x",
    "SCONTROL_FUTURE": "1",
    "SLURM_TIME_FORMAT": "%s",
    "LC_ALL": "de_DE.UTF-8",
}


def client(*answers: Completed | Exception) -> tuple[CommandLineSlurm, Answers]:
    runner = Answers(*answers)
    return CommandLineSlurm(environment={"PATH": "/bin", "SLURM_CONF": "/s", **HOSTILE}, runner=runner), runner


def out(text: str, *, err: str = "") -> Completed:
    return Completed(("squeue",), 0, text, err)


def err(text: str, code: int = 1) -> Completed:
    return Completed(("scontrol",), code, "", text)


VERBS: tuple[Callable[[CommandLineSlurm], object], ...] = (
    lambda slurm: slurm.job(JOB),
    lambda slurm: slurm.my_jobs(),
    lambda slurm: slurm.lives(JOB),
    lambda slurm: slurm.configuration(),
    lambda slurm: slurm.partition("low"),
    lambda slurm: slurm.qos("normal"),
    lambda slurm: slurm.nodes("n1"),
    lambda slurm: slurm.requeue(JOB),
    lambda slurm: slurm.requeue_hold(JOB),
    lambda slurm: slurm.cancel(JOB),
    lambda slurm: slurm.signal(JOB, "USR1", to="steps"),
    lambda slurm: slurm.exclude_nodes(JOB, ["n1"]),
    lambda slurm: slurm.start_now(JOB),
    lambda slurm: slurm.depend_on(JOB, ""),
    lambda slurm: slurm.may_requeue(JOB, True),
    lambda slurm: slurm.batch_script(JOB),
    lambda slurm: slurm.asked_for(JOB),
    lambda slurm: slurm.submit(Submission("#!/bin/sh\n", (), {})),
)
MUNGE = """error: Munge encode failed: Failed to access "/run/munge.socket": No such file or directory
error: slurm_send_node_msg: auth_g_create: REQUEST_JOB_REQUEUE has authentication error
{}"""
SILENT = (  # measured on 22.05.8 with the controller down, and with munged down
    err("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
    err("scancel: error: Kill job error on job id 5: Unable to contact slurm controller (connect failure)", 8),
    err("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"),
    err("Unexpected message received for job 5"),
    err("slurm_load_jobs error: Socket timed out on send/recv operation"),
    err(MUNGE.format("Unexpected message received for job 5")),
    err(MUNGE.format("slurm_load_jobs error: Protocol authentication error"), 239),
    err("Job can not be altered now, try again later for job 5"),  # in the words of its source, not measured
    # Ended by the SIGTERM that Slurm sends to every process of a job (proctrack/linuxproc), perhaps after it was done.
    Completed(("scontrol",), 143, "", ""),
    Completed(("sbatch",), 137, "", "sbatch: something that it had to say before"),
    CommandTimedOut("late"),
    CommandMissing("none"),
)


@pytest.mark.parametrize("silence", SILENT)
@pytest.mark.parametrize("verb", VERBS)
def test_silence_is_unavailable_whatever_verb_and_whatever_words(
    verb: Callable[[CommandLineSlurm], object], silence: Completed | Exception
) -> None:
    slurm, runner = client(silence)
    with pytest.raises(SlurmUnavailable):
        verb(slurm)
    assert len(runner.asked) == 1


def test_no_slurmdbd_is_silence_too() -> None:
    accounting = CONFIGURATION.replace("accounting_storage/none", "accounting_storage/slurmdbd")
    slurm, _ = client(out(accounting), err("sacct: error: Problem talking to the database: Connection refused"))
    with pytest.raises(SlurmUnavailable):
        slurm.lives(JOB)


def test_a_script_that_could_not_be_had_is_no_empty_script() -> None:
    slurm, _ = client(
        out("", err="job script retrieval failed: Unable to contact slurm controller (connect failure)"),
        out("", err="job script retrieval failed: Invalid job id specified"),
    )
    with pytest.raises(SlurmUnavailable):
        slurm.batch_script(JOB)
    with pytest.raises(SlurmRejected):
        slurm.batch_script(JOB)


def test_a_no_is_a_no() -> None:
    slurm, _ = client(err("Job is pending execution for job 5"))
    with pytest.raises(SlurmRejected, match="pending execution"):
        slurm.requeue(JOB)


def test_nothing_that_the_user_has_set_for_slurms_commands_reaches_them() -> None:
    slurm, runner = client(out(line()))
    slurm.job(JOB)
    assert runner.environments == [{"PATH": "/bin", "SLURM_CONF": "/s", "LC_ALL": "C"}]


def test_a_submission_has_its_own_environment_and_its_script_on_standard_input() -> None:
    slurm, runner = client(out("123;other\n"))
    environment = {"PATH": "/usr/bin", "SBATCH_EXPORT": "NONE"}
    assert slurm.submit(Submission("#!/bin/sh\n", ("--hold",), environment)) == "123"
    assert (runner.asked, runner.environments) == ([["sbatch", "--parsable", "--hold"]], [environment])
    assert runner.given == ["#!/bin/sh\n"]


@pytest.mark.parametrize(
    ("options", "job"), [(("--array=3",), "123_3"), (("--array=3-4",), "123"), (("--array=3", "--array=5"), "123_5")]
)
def test_an_array_of_one_is_its_element(options: tuple[str, ...], job: str) -> None:
    slurm, _ = client(out("123\n"))
    assert slurm.submit(Submission("", options, {})) == job


@pytest.mark.parametrize("text", ["", "Submitted batch job 7\n", "x;y"])
def test_an_answer_without_a_job_is_not_guessed_at(text: str) -> None:
    slurm, _ = client(out(text))
    with pytest.raises(SlurmUnparsable):
        slurm.submit(Submission("", (), {}))


def test_a_job_that_the_controller_does_not_know_is_none() -> None:
    slurm, _ = client(err("slurm_load_jobs error: Invalid job id specified"), out(""))
    assert slurm.job(JOB) is None
    assert slurm.job(JOB) is None


def test_a_bare_array_is_not_one_job() -> None:
    slurm, _ = client(out(line(JobArrayID="37316000_1") + line(JobArrayID="37316000_2")))
    with pytest.raises(SlurmUnparsable, match="not one job"):
        slurm.job(JOB)


def test_a_column_that_squeue_does_not_know_moves_the_others_and_is_refused() -> None:
    complaint = "squeue: error: Invalid job format specification: PreemptTime"
    slurm, _ = client(out(line(), err=complaint), out(CONFIGURATION), err("could not find plugin for application/json"))
    with pytest.raises(SlurmUnparsable, match="PreemptTime"):
        slurm.job(JOB)


def test_what_the_columns_can_not_carry_is_asked_for_in_json() -> None:
    wide = line(NodeList="n" * 4000)
    mine = FLAT | {"job_id": 37316000, "nodes": "n" * 4000}
    slurm, runner = client(out(wide), out(CONFIGURATION), out(answer("v0.0.38", mine)))
    record = slurm.job(JOB)
    assert record is not None
    assert len(record.nodes) == 4000
    assert runner.asked[-1] == ["squeue", "--json", "--states=all", "--jobs", JOB]


def test_without_json_what_the_columns_can_not_carry_is_unparsable() -> None:
    slurm, _ = client(
        out(line(NodeList="n" * 4000)), out(CONFIGURATION), err("fatal: could not find plugin for application/json")
    )
    with pytest.raises(SlurmUnparsable, match=r"NodeList.*application/json"):
        slurm.job(JOB)


GRACE_RUNS_OUT = line(PreemptTime="2026-11-30T04:04:01", EndTime="NONE")  # as 24.11 shows it


def test_the_end_of_a_grace_that_the_columns_do_not_show_is_asked_for_in_json() -> None:
    told = answer("v0.0.38", FLAT | {"job_id": 37316000, "end_time": 1796011456})
    slurm, _ = client(out(GRACE_RUNS_OUT), out(CONFIGURATION), out(told))
    record = slurm.job(JOB)
    assert record is not None
    assert record.end_s == 1796011456


def test_without_json_a_job_in_its_grace_is_told_without_an_end() -> None:
    slurm, _ = client(out(GRACE_RUNS_OUT), out(CONFIGURATION), err("could not find plugin for application/json"))
    record = slurm.job(JOB)
    assert record is not None
    assert record.preempted_s is not None
    assert record.end_s is None


@pytest.mark.parametrize(
    ("to", "argv"),
    [
        ("steps", ["scancel", "--signal=USR1", JOB]),
        ("batch", ["scancel", "--signal=USR1", "--batch", JOB]),
        ("2", ["scancel", "--signal=USR1", f"{JOB}.2"]),
    ],
)
def test_a_signal_goes_to_the_steps_or_to_the_shell_and_never_to_both(to: str, argv: list[str]) -> None:
    slurm, runner = client(out(line()), out(""))
    slurm.signal(JOB, "USR1", to=to)
    assert runner.asked[-1] == argv


def test_a_signal_to_something_else_is_a_mistake() -> None:
    slurm, _ = client(out(line()))
    with pytest.raises(ValueError, match="everything"):
        slurm.signal(JOB, "TERM", to="everything")


def test_a_controller_that_is_down_does_not_answer_and_asking_never_raises() -> None:
    slurm, _ = client(
        out("Slurmctld(primary) at vm is UP\n"), err("Slurmctld(primary) at vm is DOWN"), CommandMissing("x")
    )
    assert [slurm.answers() for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("state", "taken"),
    [
        ({"StateCompact": "PD", "State": "PENDING"}, True),
        ({"StateCompact": "CG", "State": "COMPLETING"}, True),  # where it is not queued again, Slurm itself says no
        ({}, False),
    ],
)
def test_nodes_are_excluded_from_a_job_that_waits_also_while_its_last_life_completes(
    state: dict[str, str], taken: bool
) -> None:
    slurm, runner = client(out(line(JobArrayID=JOB, **state)), out("n7\n"), out(""))
    if not taken:
        with pytest.raises(SlurmRejected, match="does not wait"):
            slurm.exclude_nodes(JOB, ["n1"])
        return
    slurm.exclude_nodes(JOB, ["n1"])
    assert runner.asked[-1] == ["scontrol", "update", f"JobId={JOB}", "ExcNodeList=n1,n7"]
