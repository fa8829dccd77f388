from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.command import Completed
from slurm_resilience.errors import CommandTimedOut, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import JobRef, JobState, Submission
from slurm_resilience.slurm.pyslurm_client import PySlurmClient, reply
from tests.contract.fake_pyslurm import INFINITE, NO_VAL, FakePyslurm, RPCError
from tests.faults.fake_slurm import FakeSlurm, running

SEVEN = JobRef("7")


@dataclass
class Stage:
    """One Slurm, looked at through pyslurm and, where that can't, through `commands`: a FakeSlurm that may differ."""

    slurm: FakeSlurm = field(default_factory=lambda: FakeSlurm({"7": running()}))
    commands: FakeSlurm = field(default_factory=lambda: FakeSlurm({"7": running(partition="as the commands say")}))
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pyslurm = FakePyslurm(self.slurm)
        self.client = PySlurmClient(self.commands, say=self.said.append, runner=self.pyslurm.run)

    @property
    def asked_the_commands(self) -> bool:
        record = self.client.job(SEVEN)
        return record is not None and record.partition == "as the commands say"


def test_a_job_that_lives_is_seen_by_pyslurm() -> None:
    stage = Stage()
    stage.slurm.jobs["7"] = running(restarts=2, comment="a word", qos="normal", preempted_s=50.0, end_s=65.0)
    record = stage.client.job(SEVEN)
    assert record is not None
    assert (record.state, record.restarts, record.comment, record.qos) == (JobState.RUNNING, 2, "a word", "normal")
    assert (record.preempted_s, record.end_s, record.partition, record.nodes) == (50.0, 65.0, "low", "n[1-2]")
    assert stage.said == []


@pytest.mark.parametrize(
    "state", [state for state in JobState if state not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)]
)
def test_of_a_job_that_is_over_the_commands_are_asked(state: JobState) -> None:
    """pyslurm makes 15 of the exit code 143."""
    stage = Stage()
    stage.slurm.jobs["7"] = running(state=state, exit_code=143)
    assert stage.asked_the_commands


def test_of_a_job_that_is_completing_the_commands_are_asked() -> None:
    stage = Stage()
    stage.slurm.jobs["7"] = running(completing=True)
    assert stage.asked_the_commands


@pytest.mark.parametrize("word", ["CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"])
def test_a_job_that_has_its_nodes_runs(word: str) -> None:
    stage = Stage()
    stage.pyslurm.raw = {"state": word}
    record = stage.client.job(SEVEN)
    assert record is not None
    assert (record.state, record.partition) == (JobState.RUNNING, "low")


def test_a_state_that_is_not_known_is_left_to_the_commands() -> None:
    stage = Stage()
    stage.pyslurm.raw = {"state": "REVOKED"}
    assert stage.asked_the_commands


@pytest.mark.parametrize(("restarts", "told"), [(0, 0), (1, None)])
def test_what_an_earlier_life_left_with_is_not_told(restarts: int, told: int | None) -> None:
    stage = Stage()
    stage.slurm.jobs["7"] = running(state=JobState.PENDING, restarts=restarts, exit_code=143 if restarts else 0)
    record = stage.client.job(SEVEN)
    assert record is not None
    assert (record.exit_code, record.exit_signal) == (told, told)


@pytest.mark.parametrize(
    "dependency", ["afterany:6(unfulfilled)", "singleton(unfulfilled)", "afterok:5(unfulfilled),singleton(unfulfilled)"]
)
def test_what_a_job_waits_for_is_told_by_the_commands(dependency: str) -> None:
    stage = Stage()
    stage.slurm.jobs["7"] = running(state=JobState.PENDING, dependency=dependency)
    assert stage.asked_the_commands


@pytest.mark.parametrize("raw", [None, 0, NO_VAL, INFINITE, INFINITE + 1_796_009_945])
def test_a_time_that_is_none_is_none(raw: int | None) -> None:
    stage = Stage()
    stage.pyslurm.raw = {"start_time": raw, "end_time": raw, "preempt_time": raw}
    record = stage.client.job(SEVEN)
    assert record is not None
    assert (record.start_s, record.end_s, record.preempted_s) == (None, None, None)


@given(st.integers(1, NO_VAL - 1))
def test_any_other_time_is_seconds_since_the_epoch(raw: int) -> None:
    stage = Stage()
    stage.pyslurm.raw = {"end_time": raw}
    record = stage.client.job(SEVEN)
    assert record is not None
    assert record.end_s == raw


@pytest.mark.parametrize("member", [{"end_time": "2026-01-01T00:00:00"}, {"requeue_count": "UNLIMITED"}])
def test_what_is_no_number_is_not_guessed_at(member: dict[str, object]) -> None:
    stage = Stage()
    stage.pyslurm.raw = member
    with pytest.raises(SlurmUnparsable):
        stage.client.job(SEVEN)


def test_array_elements_are_the_commands() -> None:
    """pyslurm takes a number, and that of the last element is the array's."""
    stage = Stage()
    for slurm in (stage.slurm, stage.commands):
        slurm.jobs |= {"8_0": running("8_0"), "8_1": running("8_1")}
    stage.client.requeue(JobRef("8_0"))
    stage.client.requeue_hold(JobRef("8_1"))
    assert stage.client.job(JobRef("8_1")) == stage.commands.jobs["8_1"]
    assert stage.commands.requeued == ["8_0", "8_1"]
    assert stage.pyslurm.called == []


def test_an_arrays_number_is_left_to_the_commands() -> None:
    """pyslurm would give the last element for it, and says of element 0 that it is none."""
    stage = Stage()
    for slurm in (stage.slurm, stage.commands):
        slurm.jobs |= {"8_0": running("8_0")}
    assert stage.client.job(JobRef("8")) is None
    assert stage.pyslurm.called == ["load"]


@pytest.mark.parametrize("job", ["", "7;8", "7.0", "²", "-7", "+7", "7 "])
def test_only_a_plain_number_goes_to_pyslurm(job: str) -> None:
    stage = Stage()
    stage.client.job(JobRef(job))
    assert stage.pyslurm.called == []


def test_a_job_is_held_as_its_user_holds_it() -> None:
    stage = Stage()
    stage.client.requeue_hold(SEVEN)
    assert stage.slurm.jobs["7"].held
    assert stage.slurm.jobs["7"].reason != "JobHeldAdmin"
    assert stage.pyslurm.called == ["requeue hold=True"]


def test_a_signal_is_never_pyslurms() -> None:
    """It judges by errno, whoever has set it, says nothing where the job is over, and its "all" would reach srun."""
    stage = Stage()
    stage.pyslurm.errno = 5
    stage.client.signal(SEVEN, "USR1", to="steps")
    stage.client.cancel(SEVEN)
    assert (stage.commands.signalled, stage.commands.cancelled) == ([("7", "USR1", "steps")], ["7"])
    assert stage.pyslurm.called == []


def test_what_pyslurm_is_not_trusted_with_reaches_the_commands() -> None:
    stage = Stage()
    stage.commands.jobs["7"] = running(state=JobState.PENDING, reason="BeginTime")
    stage.client.exclude_nodes(SEVEN, {"n3"})
    stage.client.start_now(SEVEN)
    stage.client.depend_on(SEVEN, "afterany:6")
    stage.client.may_requeue(SEVEN, False)
    submitted = stage.client.submit(Submission("#!/bin/sh\n", (), {}))
    assert stage.client.my_jobs() == tuple(stage.commands.jobs.values())
    assert stage.client.batch_script(submitted) == "#!/bin/sh\n"
    assert stage.client.asked_for(SEVEN) == stage.commands.asked_for(SEVEN)
    assert stage.client.configuration() == stage.commands.configured
    assert stage.client.partition("low") == stage.commands.partition("low")
    assert (stage.client.qos("normal"), stage.client.lives(SEVEN), stage.client.nodes("n1")) == (None, None, ())
    assert stage.client.answers()
    assert stage.commands.excluded["7"] == {"n3"}
    assert not stage.commands.jobs["7"].requeue
    assert stage.pyslurm.called == []


@dataclass
class Refusing:
    """A pyslurm whose every call fails with one number."""

    errno: int
    __version__: str = "25.11.2"
    RPCError: type[RPCError] = RPCError

    def Job(self, number: int) -> Refusing:  # noqa: N802 # as pyslurm calls it
        return self

    def requeue(self, hold: bool = False) -> None:
        raise RPCError(self.errno, "so it says")

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None) -> Completed:
        return Completed(tuple(argv), 0, reply(argv[-2], argv[-1], lambda: self), "")


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (1800, SlurmUnavailable),  # nobody listens
        (5004, SlurmUnavailable),  # timed out
        (5005, SlurmUnavailable),  # zero bytes
        (1007, SlurmUnavailable),  # munge says no: not the controller
        (2027, SlurmUnavailable),  # a standby: not the one in charge
        (2131, SlurmUnavailable),
        (111, SlurmUnavailable),  # ECONNREFUSED
        (4711, SlurmUnavailable),  # not known: no word of the controller's
        (2017, SlurmRejected),  # no such job
        (2024, SlurmRejected),  # it is pending
        (2037, SlurmRejected),  # it may not be requeued
        (2002, SlurmRejected),  # not yours
        (0, SlurmUnparsable),  # "Success", as an error
        (-1, SlurmUnparsable),
    ],
)
def test_a_refused_requeue_is_silence_or_a_word_of_the_controllers(number: int, error: type[Exception]) -> None:
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, say=pytest.fail, runner=Refusing(number).run)
    with pytest.raises(error, match="so it says"):
        client.requeue(SEVEN)
    assert commands.requeued == []


def test_a_controller_of_another_version_leaves_everything_to_the_commands() -> None:
    said: list[str] = []
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, say=said.append, runner=Refusing(1005).run)
    client.requeue(SEVEN)
    assert commands.requeued == ["7"]
    assert len(said) == 1
    assert "not for this controller" in said[0]


def test_a_pyslurm_without_the_members_we_know_leaves_everything_to_the_commands() -> None:
    said: list[str] = []
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, say=said.append, runner=Refusing(2017).run)
    assert client.job(SEVEN) == commands.jobs["7"]  # a Refusing has no Job.load
    client.requeue(SEVEN)
    assert commands.requeued == ["7"]
    assert len(said) == 1
    assert "25.11.2" in said[0]


def test_a_call_that_hangs_is_over_in_time_and_the_next_is_the_commands() -> None:
    def hangs(argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None) -> Completed:
        raise CommandTimedOut(f"{argv[-1]} did not answer within {timeout_s:g} s")

    said: list[str] = []
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, say=said.append, runner=hangs)
    with pytest.raises(SlurmUnavailable):  # it may have been done: the caller must look
        client.requeue(SEVEN)
    assert commands.requeued == []
    client.requeue(SEVEN)
    assert commands.requeued == ["7"]
    assert len(said) == 1
