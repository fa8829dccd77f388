"""One step under watch, with small programs in srun's place."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import CommandMissing, SlurmUnavailable
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, write_agent_record
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.step import LOOK_AT_RECORDS_S, StepEnd, StepWatch

PATIENCE_S = 60.0
UNTIL_TOLD = ("bash", "-c", 'until [ -e "$ENOUGH" ]; do sleep 0.05; done; exit 7')


class Scene:
    """A step that runs until the test says that it is enough, and what was ordered meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDirectory(folder / "run")
        self.run.attempt(1).mkdir(parents=True)
        self.enough = folder / "enough"
        self.said: list[str] = []
        self.orders: list[dict[str, object]] = []
        self.preempting_asked = 0
        self.unanswered = 0
        self.looked_beside = 0
        self.kill_wait_s = 600.0
        self.by_person = False
        self.second_interrupt = signal.SIGTERM
        self.is_preempted = True
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.after_preemption_s: float | None = None
        self.environment_of_step: dict[str, str] = {}
        self.refused: str | None = None
        self.ghost_stays_s = 30.0

    def preempting(self) -> bool:
        self.preempting_asked += 1
        self.may_answer.wait(PATIENCE_S)
        if self.preempting_asked <= self.unanswered:
            raise SlurmUnavailable("Slurm's controller does not answer")
        return self.is_preempted

    def beside(self) -> None:
        self.looked_beside += 1

    def watch(self, argv: Sequence[str], *story: Callable[[], None], heard: Sequence[signal.Signals] = ()) -> StepEnd:
        """Watch the step to its end; the story is told beside it, one event once the one before is done."""
        environment = {**os.environ, "ENOUGH": str(self.enough), **self.environment_of_step}
        watch = StepWatch(
            self.run,
            1,
            argv,
            environment,
            SystemClock(),
            self.kill_wait_s,
            self.by_person,
            self.second_interrupt,
            self.said.append,
            self.preempting,
            self.beside,
            self.after_preemption_s,
            lambda: self.refused,
            self.ghost_stays_s,
        )
        failed: list[BaseException] = []

        def tell() -> None:
            try:
                for event in story:
                    event()
            except BaseException as error:  # noqa: BLE001  # told by the test, not by a thread
                failed.append(error)
            self.enough.touch()

        teller = threading.Thread(target=tell)
        with Notices() as notices:
            teller.start()
            end = watch.watch(notices, heard)
            teller.join()
        assert failed == []
        return end

    def send(self, number: signal.Signals) -> Callable[[], None]:
        return lambda: os.kill(os.getpid(), number)

    def wait_ordered(self, reason: str) -> Callable[[], None]:
        def wait() -> None:
            _until(lambda: self.run.stop_order(1).exists() and self._order()["reason"] == reason, reason)
            self.orders.append(self._order())

        return wait

    def _order(self) -> dict[str, object]:
        found = json.loads(self.run.stop_order(1).read_text())
        assert isinstance(found, dict)
        return found

    def record(self, node: int, outcome: Outcome, stop_reason: str | None = None) -> Callable[[], None]:
        record = AgentRecord(node, f"n{node}", 1, 0.0, outcome, stop_reason=stop_reason)
        return lambda: write_agent_record(self.run.agent_record(1, node), record)


def _until(happened: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_steps_own_code_is_the_end_of_it(scene: Scene) -> None:
    assert scene.watch(UNTIL_TOLD) == StepEnd(7, (), None, in_grace=False)
    assert not scene.run.stop_order(1).exists()


def test_a_program_that_is_not_there_is_named(scene: Scene) -> None:
    with pytest.raises(CommandMissing, match="no program 'srun-of-nowhere'"):
        scene.watch(("srun-of-nowhere",))


def test_a_step_that_the_system_refuses_to_start_is_one_that_failed(scene: Scene) -> None:
    """No process to be had (EAGAIN), or, here, too much to say to it (E2BIG): the next attempt may be luckier."""
    end = scene.watch(("true", "x" * 3_000_000), heard=[signal.SIGUSR1])
    assert end == StepEnd(126, ("SIGUSR1",), None, in_grace=False, started=False)
    assert scene.said == ["true can't be started: Argument list too long"]


def test_a_step_whose_run_has_gone_on_elsewhere_is_left_though_srun_stays(scene: Scene) -> None:
    scene.ghost_stays_s = 0.5
    scene.run.attempt(2).mkdir()
    scene.run.plan(2).touch()
    end = scene.watch(("bash", "-c", "trap '' TERM; exec sleep 600"))
    assert end.code == 79
    assert scene.said == ["attempt 2 of the run has begun: this one is a ghost, and ends"]


def test_an_attempt_that_has_no_plan_yet_makes_no_ghost_of_the_one_before(scene: Scene) -> None:
    scene.ghost_stays_s = 0.0
    scene.run.attempt(2).mkdir()
    assert scene.watch(UNTIL_TOLD, lambda: time.sleep(1.5)).code == 7


def test_a_warning_is_handed_on_as_an_order_once(scene: Scene) -> None:
    end = scene.watch(
        UNTIL_TOLD,
        scene.send(signal.SIGUSR1),
        scene.wait_ordered("WARNING"),
        lambda: scene.run.stop_order(1).unlink(),
        scene.send(signal.SIGUSR1),
        lambda: time.sleep(0.8),
    )
    assert scene.orders[0]["seconds"] is None
    assert not scene.run.stop_order(1).exists()  # the second one added nothing
    assert end.signals == ("SIGUSR1", "SIGUSR1")
    assert end.must_leave_s is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_no_signal_is_handed_on_to_srun_which_would_kill_its_tasks(scene: Scene, number: signal.Signals) -> None:
    """NVIDIA/cloudai#942: srun makes SIGKILL for its tasks of SIGTERM, SIGHUP and SIGQUIT."""
    ends_by = "for one in TERM HUP INT QUIT USR1 USR2; do trap 'exit 9' $one; done; "
    waits = 'until [ -e "$ENOUGH" ]; do sleep 0.05; done; exit 7'
    end = scene.watch(("bash", "-c", ends_by + waits), scene.send(number), lambda: time.sleep(0.6))
    assert end.code == 7
    assert end.signals == (number.name,)


def test_a_sigterm_from_slurm_has_a_deadline_before_the_kill(scene: Scene) -> None:
    scene.kill_wait_s = 100
    before_s = time.monotonic()
    end = scene.watch(UNTIL_TOLD, scene.send(signal.SIGTERM), scene.wait_ordered("TERMINATION"))
    seconds = scene.orders[0]["seconds"]
    assert isinstance(seconds, float)
    assert 0 < seconds < 100
    assert end.must_leave_s is not None
    assert end.must_leave_s >= before_s + 100


def test_a_sigterm_from_a_person_has_none(scene: Scene) -> None:
    scene.by_person = True
    end = scene.watch(UNTIL_TOLD, scene.send(signal.SIGTERM), scene.wait_ordered("OPERATOR"))
    assert scene.orders[0]["seconds"] is None
    assert end.must_leave_s is None


def test_what_came_between_two_attempts_is_an_order_to_this_one(scene: Scene) -> None:
    scene.by_person = True
    end = scene.watch(UNTIL_TOLD, scene.wait_ordered("OPERATOR"), heard=[signal.SIGINT])
    assert end.signals == ("SIGINT",)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the step runs on, and that is right
def test_the_step_is_given_up_before_slurm_kills_us(scene: Scene) -> None:
    scene.kill_wait_s = 3.5
    pid = scene.run.path / "pid"
    end = scene.watch(
        ("bash", "-c", f"echo $$ > '{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 600"),
        lambda: _until(pid.exists, "the step's start"),
        scene.send(signal.SIGTERM),
    )
    returned_s = time.monotonic()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # subprocess may have asked already
        os.waitpid(int(pid.read_text()), 0)
    assert end.code is None
    assert end.must_leave_s is not None
    assert returned_s < end.must_leave_s
    assert any("can't wait for the ranks any longer" in text for text in scene.said)


def test_when_one_node_falls_silent_the_others_are_asked_to_save_and_stop(scene: Scene) -> None:
    def beat_without_the_second() -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not scene.run.stop_order(1).exists() and time.monotonic() < end_s:
            os.utime(scene.run.agent_record(1, 0))
            time.sleep(0.2)

    scene.environment_of_step = {"SLURM_RESILIENCE_SILENT_AFTER": "6"}
    running = (scene.record(0, Outcome.RUNNING), scene.record(1, Outcome.RUNNING))
    scene.watch(UNTIL_TOLD, *running, beat_without_the_second, scene.wait_ordered("PEER_FAILED"))
    assert "node agent 1 has not been heard for 6 s" in str(scene.orders[0]["because"])
    assert scene.orders[0]["seconds"] == scene.kill_wait_s


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_STARTED])
def test_when_one_node_has_failed_the_others_are_told(scene: Scene, outcome: Outcome) -> None:
    scene.watch(UNTIL_TOLD, scene.record(1, outcome), scene.wait_ordered("PEER_FAILED"))
    assert "node agent 1 on n1 failed" in str(scene.orders[0]["because"])


def test_a_node_that_crashed_while_it_left_does_not_keep_the_others_waiting(scene: Scene) -> None:
    record = AgentRecord(1, "n1", 1, 0.0, Outcome.FINISHED, command_code=134)

    def tell() -> None:
        write_agent_record(scene.run.agent_record(1, 1), record)

    scene.watch(UNTIL_TOLD, tell, scene.wait_ordered("PEER_FAILED"))


def test_slurm_is_asked_once_why_the_ranks_were_asked_to_stop(scene: Scene) -> None:
    end = scene.watch(
        UNTIL_TOLD,
        scene.record(0, Outcome.RUNNING, "TERMINATION"),
        lambda: _until(lambda: scene.preempting_asked > 0, "Slurm was not asked"),
        lambda: time.sleep(1.5),
    )
    assert end.in_grace
    assert scene.preempting_asked == 1


def test_a_controller_that_does_not_answer_delays_no_signal(scene: Scene) -> None:
    scene.may_answer.clear()
    end = scene.watch(
        UNTIL_TOLD,
        scene.record(0, Outcome.RUNNING, "TERMINATION"),
        lambda: _until(lambda: scene.preempting_asked > 0, "Slurm was not asked"),
        scene.send(signal.SIGUSR1),
        scene.wait_ordered("WARNING"),
        scene.may_answer.set,
    )
    assert end.signals == ("SIGUSR1",)
    assert end.in_grace  # its word is waited for at the end: Slurm forgets it


def test_a_warning_that_is_a_preemptions_gets_its_deadline(scene: Scene) -> None:
    scene.after_preemption_s = 40.0
    scene.watch(UNTIL_TOLD, scene.record(0, Outcome.RUNNING, "WARNING"), scene.wait_ordered("TERMINATION"))
    seconds = scene.orders[0]["seconds"]
    assert isinstance(seconds, float)
    assert 1 <= seconds <= 40


def test_slurm_is_asked_again_why_where_it_did_not_answer(scene: Scene) -> None:
    scene.after_preemption_s = 240.0
    scene.unanswered = 2
    end = scene.watch(UNTIL_TOLD, scene.record(0, Outcome.RUNNING, "WARNING"), scene.wait_ordered("TERMINATION"))
    assert scene.preempting_asked == 3
    assert end.in_grace


def test_a_warning_that_is_none_is_left_as_it_is_and_a_term_after_it_is_asked_about_again(scene: Scene) -> None:
    scene.after_preemption_s, scene.is_preempted = 40.0, False
    end = scene.watch(
        UNTIL_TOLD,
        scene.record(0, Outcome.RUNNING, "WARNING"),
        lambda: _until(lambda: scene.preempting_asked == 1, "Slurm was not asked"),
        lambda: time.sleep(0.5),
        scene.record(1, Outcome.RUNNING, "TERMINATION"),
        lambda: _until(lambda: scene.preempting_asked == 2, "Slurm was not asked again"),
    )
    assert not scene.run.stop_order(1).exists()
    assert not end.in_grace


def test_agents_that_outlive_a_killed_srun_are_waited_for(scene: Scene) -> None:
    scene.record(0, Outcome.RUNNING)()
    end = scene.watch(
        ("bash", "-c", "kill -KILL $$"), lambda: time.sleep(1), scene.record(0, Outcome.STOPPED, "TERMINATION")
    )
    assert end.code == 137
    assert scene.enough.exists()
    assert [record.outcome for record in watch_records(scene)] == [Outcome.STOPPED]


def watch_records(scene: Scene) -> list[AgentRecord]:
    unused: Callable[[str], None] = scene.said.append
    watch = StepWatch(scene.run, 1, (), {}, SystemClock(), 1.0, False, signal.SIGTERM, unused, scene.preempting)
    return watch.records()


def test_a_second_interrupt_by_a_person_ends_the_training_at_once(scene: Scene) -> None:
    scene.by_person = True
    scene.second_interrupt = signal.SIGKILL
    end = scene.watch(
        ("bash", "-c", "trap '' TERM; while :; do sleep 0.2; done"),
        scene.send(signal.SIGINT),
        scene.wait_ordered("OPERATOR"),
        scene.send(signal.SIGINT),
    )
    assert end.code == 137
    assert end.signals == ("SIGINT", "SIGINT")


def test_an_order_that_cannot_be_written_is_said_and_the_step_goes_on(scene: Scene) -> None:
    scene.run.attempt(1).rmdir()
    end = scene.watch(
        UNTIL_TOLD,
        scene.send(signal.SIGUSR1),
        lambda: _until(lambda: bool(scene.said), "nothing was said"),
    )
    assert end.code == 7
    assert "the stop order could not be written" in scene.said[0]


def test_an_order_that_was_refused_once_is_written_as_soon_as_that_works(scene: Scene) -> None:
    scene.run.attempt(1).rmdir()
    scene.watch(
        UNTIL_TOLD,
        scene.send(signal.SIGUSR1),
        lambda: _until(lambda: bool(scene.said), "nothing was said"),
        scene.run.attempt(1).mkdir,
        scene.wait_ordered("WARNING"),
    )
    assert len(scene.said) == 1
    assert scene.orders[0]["because"] == "SIGUSR1 to the batch script"


def test_records_that_can_not_be_read_end_nothing_and_are_said_once(scene: Scene) -> None:
    scene.run.agent_record(1, 0).mkdir()
    scene.run.agent_record(1, 1).write_text('{"format": 99}')
    end = scene.watch(
        UNTIL_TOLD,
        lambda: _until(lambda: bool(scene.said), "nothing was said"),
        lambda: time.sleep(2 * LOOK_AT_RECORDS_S),
        scene.record(2, Outcome.FAILED),
        scene.wait_ordered("PEER_FAILED"),
    )
    assert end.code == 7
    assert len(scene.said) == 1


def test_the_step_finds_the_signals_as_a_shell_would_leave_them(scene: Scene) -> None:
    told = scene.run.path / "told"
    program = (
        "import os, pathlib, signal, sys;"
        "states = [signal.getsignal(n) == signal.SIG_DFL for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)];"
        "blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ());"
        "pathlib.Path(sys.argv[1]).write_text(f'{states} {len(blocked)} {os.getpgrp() == os.getpid()}')"
    )
    scene.watch((sys.executable, "-c", program, str(told)))
    assert told.read_text() == "[True, True, True] 0 True"


def test_a_pause_between_attempts_is_ended_by_signals_and_not_by_the_death_of_children() -> None:
    with Notices() as notices:
        child = subprocess.Popen(["sleep", "0.05"])
        child.wait()
        began_s = time.monotonic()
        assert notices.pause(0.3, SystemClock()) == []
        assert time.monotonic() - began_s >= 0.3
        os.kill(os.getpid(), signal.SIGINT)
        assert notices.pause(600, SystemClock()) == [signal.SIGINT]


def test_what_runs_beside_is_looked_after_until_the_ranks_are_asked_to_stop(scene: Scene) -> None:
    looked: list[int] = []
    scene.watch(
        UNTIL_TOLD,
        lambda: _until(lambda: scene.looked_beside > 1, "two looks"),
        scene.send(signal.SIGUSR1),
        scene.wait_ordered("WARNING"),
        lambda: time.sleep(0.1),  # the look that may be under way
        lambda: looked.append(scene.looked_beside),
        lambda: time.sleep(0.8),
    )
    assert looked == [scene.looked_beside]


def test_where_a_node_lets_no_task_start_the_others_are_asked_not_to_wait_for_it(scene: Scene) -> None:
    scene.refused = "node n2 is unhealthy: gpu-ecc: 3 errors"
    scene.watch(UNTIL_TOLD, scene.wait_ordered("PEER_FAILED"))
    assert scene.orders[0]["because"] == scene.refused
