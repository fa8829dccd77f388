"""Preflight before the step, with a preflight that does what the test says: no trouble of its own stops a training."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.clock import SystemClock
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.preflight_verdict import (
    PreflightVerdict,
    Then,
    Unfit,
    read_verdict,
    verdict_path,
    write_verdict,
)
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.client import JobRecord, JobRef
from slurm_resilience.slurm.facts import job_facts
from slurm_resilience.supervisor.ending import Seen
from slurm_resilience.supervisor.inspection import Inspection
from slurm_resilience.supervisor.request import OnPreflight, Preflighting
from slurm_resilience.supervisor.supervise import Supervisor
from slurm_resilience.supervisor.surroundings import Mode, Shape
from tests.faults.agent_scene import REPOSITORY, wait_until
from tests.faults.fake_slurm import FakeSlurm, running
from tests.faults.test_ending import World
from tests.unit.supervisor.requests import request

SICK = {"check": "gpu", "node": "n2", "outcome": "fail", "problem": "node problem", "sentence": "3 ECC errors"}
FULL = {"check": "storage", "node": None, "outcome": "fail", "problem": "user problem", "sentence": "the disk is full"}
SLOW = {"check": "clock", "node": "n1", "outcome": "warn", "problem": "node problem", "sentence": "it is 2 s ahead"}
REMEDY = "mend it"

WRITES_A_REPORT = """
import sys
[output] = [word.partition("=")[2] for word in sys.argv if word.startswith("--output=")]
open(output, "w").write(open(sys.argv[1]).read())
"""
HANGS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


@dataclass(frozen=True, kw_only=True)
class SupervisorUnderTest(Supervisor):
    program: tuple[str, ...]

    def _inspection(self) -> Inspection:
        return replace(super()._inspection(), program=self.program)


class Scene:
    """A job of three nodes, an srun that only notes how it was called, and a preflight."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunDirectory(folder / "run")
        self.slurm = FakeSlurm({"7": running(nodes="n[1-3]")})
        self.said: list[str] = []
        self.restarts = 0
        self.nodes = 3
        self.job_nodes = 3
        self.mode = Mode.BATCH
        self.wish = OnPreflight.EXCLUDE
        srun = folder / "srun"
        srun.write_text(f'#!/bin/sh\necho "$*" >> {folder}/steps\nexit 0\n')
        srun.chmod(0o755)
        self.program: tuple[str, ...] = ()

    def finds(self, *results: dict[str, Any], text: str | None = None, **changed: object) -> None:
        outcomes = {result["outcome"] for result in results}
        value = {
            "format": 1,
            "outcome": "fail" if "fail" in outcomes else "warn" if outcomes else "ok",
            "exit_code": 2 if "fail" in outcomes else 1 if outcomes else 0,
            "sentence": "all 3 nodes are fit for the training",
            "job": "7",
            "restart": 0,
            "nodes": [f"n{number}" for number in range(1, self.job_nodes + 1)],
            "started_s": 0.0,
            "took_s": 1.0,
            "results": [{"remedy": REMEDY, "measured": {}, "took_s": 0.1, **result} for result in results],
            **changed,
        }
        path = self.folder / "finds.json"
        path.write_text(json.dumps(value) if text is None else text)
        self.does(WRITES_A_REPORT, str(path))

    def does(self, program: str, *words: str) -> None:
        self.program = (sys.executable, "-c", program, *words)

    def supervise(self) -> int:
        facts = {"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": str(self.job_nodes)}
        facts |= {"SLURM_JOB_NODELIST": f"n[1-{self.job_nodes}]", "SLURM_CLUSTER_NAME": "fake"}
        facts |= {"SLURM_RESTART_COUNT": str(self.restarts)} if self.restarts else {}
        supervisor = SupervisorUnderTest(
            replace(request("--mem=0 python t.py"), preflight=Preflighting(self.wish, 200.0)),
            self.mode,
            Shape(self.nodes, 1, None),
            job_facts(facts) if self.mode is not Mode.LOCAL else None,
            self.slurm if self.mode is not Mode.LOCAL else None,
            SystemClock(),
            {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)},
            self.run,
            self.said.append,
            program=self.program,
        )
        code = supervisor.supervise()
        self.restarts += 1
        return code

    def while_it_hangs(self, event: Callable[[], None]) -> tuple[int, list[int]]:
        """The exit code, and the processes of a preflight that hangs, with `event` once it does."""
        notes = self.folder / "pids"
        self.does(HANGS, str(notes))
        failed: list[BaseException] = []

        def tell() -> None:
            try:
                wait_until(lambda: notes.exists() and len(notes.read_text().split()) == 2, "preflight's start")
                event()
            except BaseException as error:  # noqa: BLE001  # told by the test, not by a thread
                failed.append(error)
                os.kill(os.getpid(), signal.SIGINT)

        teller = threading.Thread(target=tell)
        teller.start()
        code = self.supervise()
        teller.join()
        assert failed == []
        return code, [int(pid) for pid in notes.read_text().split()]

    @property
    def steps(self) -> list[str]:
        path = self.folder / "steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line != "--help"]

    def attempt(self, number: int = 1) -> Attempt:
        attempt = Chain.of(Journal(self.run).read()).attempt(number)
        assert attempt is not None
        return attempt

    @property
    def end(self) -> tuple[Cause, str, tuple[str, ...]]:
        newest = Chain.of(Journal(self.run).read()).newest_attempt
        assert newest is not None
        assert newest.ended is not None
        return newest.ended.cause, newest.ended.decision, newest.ended.exclude


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_job_whose_nodes_are_fit_trains_and_nothing_more_is_said(scene: Scene) -> None:
    scene.finds()
    scene.supervise()
    assert len(scene.steps) == 1
    assert "preflight: all 3 nodes are fit for the training" in scene.said
    assert not [text for text in scene.said if "warns" in text]


def test_a_sick_node_is_left_out_of_the_next_attempt_and_no_step_is_started(scene: Scene) -> None:
    scene.finds(SICK, SLOW)
    assert scene.supervise() == 75
    assert scene.end == (Cause.NODE_FAILURE, "requeue", ("n2",))
    assert scene.slurm.requeued == ["7"]
    assert scene.slurm.excluded == {"7": frozenset({"n2"})}
    assert scene.steps == []
    ended = scene.attempt().ended
    assert ended is not None
    assert "node n2 is unhealthy: gpu: 3 ECC errors (node failure 1 of 10 since the last progress)" in (
        ended.decision_reason
    )
    assert "preflight's remedy: mend it" in ended.evidence
    assert not [line for line in ended.evidence if "left no record" in line]
    assert "preflight warns: n1: clock: it is 2 s ahead" in scene.said


def test_with_a_node_to_spare_the_step_runs_on_the_others_and_the_next_attempt_avoids_the_sick_one(
    scene: Scene,
) -> None:
    scene.nodes = 2
    scene.finds(SICK)
    scene.supervise()
    [step] = scene.steps
    assert "--exclude=n2" in step.split()
    assert "--nodes=2" in step.split()
    assert scene.end[2] == ("n2",)  # that srun left without any agent's record, which is a crash


def test_a_users_problem_starts_nothing_and_queues_nothing_again(scene: Scene) -> None:
    scene.finds(FULL)
    assert scene.supervise() == 77
    assert scene.end == (Cause.PREFLIGHT, "stop", ())
    assert scene.slurm.requeued == []
    assert scene.steps == []
    assert "preflight: storage: the disk is full; what helps: mend it" in scene.said


def test_a_refused_run_starts_when_a_person_submits_it_again_once_it_is_mended(scene: Scene) -> None:
    scene.finds(FULL)
    assert scene.supervise() == 77
    scene.finds()
    scene.supervise()
    assert len(scene.steps) == 1


def test_what_fails_on_most_nodes_excludes_none_of_them(scene: Scene) -> None:
    scene.finds(SICK, SICK | {"node": "n3"})
    assert scene.supervise() == 77
    assert scene.end == (Cause.PREFLIGHT, "stop", ())
    assert scene.slurm.excluded == {}
    assert any("on 2 of 3 nodes, so that it is no node's fault" in text for text in scene.said)


def test_one_node_after_the_other_that_fails_in_the_same_check_is_no_nodes_fault(scene: Scene) -> None:
    scene.job_nodes = scene.nodes = 1
    scene.finds(SICK | {"node": "n1"})
    assert scene.supervise() == 75
    scene.slurm.jobs["7"] = running(restarts=1, nodes="n4")
    scene.finds(SICK | {"node": "n4"}, nodes=["n4"])
    assert scene.supervise() == 77
    assert scene.end == (Cause.PREFLIGHT, "stop", ())


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit('no module named slurm_resilience')", "left with 1 and no report: no module named"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL and no report: without a word"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)) * 9999)", "left with 0 and no report"),
    ],
)
def test_a_preflight_that_dies_is_a_warning(scene: Scene, program: str, why: str) -> None:
    scene.does(program)
    scene.supervise()
    assert len(scene.steps) == 1
    assert any(text.startswith("preflight warns: preflight could not run: it") and why in text for text in scene.said)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}', '{"format": 1, "results": [{}]}'])
def test_a_report_that_is_none_is_a_warning(scene: Scene, text: str) -> None:
    scene.finds(text=text)
    scene.supervise()
    assert len(scene.steps) == 1
    assert any("preflight could not run" in said for said in scene.said)


def test_a_program_that_is_not_there_is_a_warning(scene: Scene) -> None:
    scene.program = (str(scene.folder / "nowhere"),)
    scene.supervise()
    assert len(scene.steps) == 1


def test_who_wants_no_training_without_a_preflight_gets_none(scene: Scene) -> None:
    scene.wish = OnPreflight.STOP
    scene.does("raise SystemExit(3)")
    assert scene.supervise() == 77
    assert scene.steps == []
    assert scene.end[0] is Cause.PREFLIGHT


def test_who_wants_to_be_warned_only_trains_on_a_sick_node(scene: Scene) -> None:
    scene.wish = OnPreflight.WARN
    scene.finds(SICK)
    scene.supervise()
    assert "--exclude=n2" not in scene.steps[0].split()
    assert "preflight warns: n2: gpu: 3 ECC errors" in scene.said


def test_a_preemption_during_preflight_ends_it_at_once_and_the_job_is_queued_again(scene: Scene) -> None:
    def preempt() -> None:
        scene.slurm.jobs["7"] = running(preempted_s=900.0)
        os.kill(os.getpid(), signal.SIGTERM)

    code, pids = scene.while_it_hangs(preempt)
    assert code == 75
    assert scene.end[:2] == (Cause.PREEMPTED, "requeue")
    assert scene.steps == []
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of all that was killed")


@pytest.mark.parametrize("finds", [None, SICK | {"check": "presence", "sentence": "it died"}])
def test_a_preemption_that_only_preflights_own_step_hears_is_one_and_leaves_no_node_out(
    scene: Scene, finds: dict[str, Any] | None
) -> None:
    """In a grace Slurm signals the steps and not the batch script (22.05.8)."""
    now_s = SystemClock().now_s()
    preempted = running(preempted_s=now_s, nodes="n[1-3]")

    class Preempting(FakeSlurm):
        def job(self, job: JobRef) -> JobRecord | None:
            record = super().job(job)
            return preempted if record is not None and scene.said[-1:] == [looking] else record

    looking = "preflight: looking at the 3 nodes of job 7"
    scene.slurm.__class__ = Preempting
    if finds is None:
        scene.does("raise SystemExit('task 1: Terminated')")
    else:
        scene.finds(finds)
    assert scene.supervise() == 75
    assert scene.end == (Cause.PREEMPTED, "requeue", ())
    assert scene.steps == []


def test_a_warning_during_preflight_is_one(scene: Scene) -> None:
    code, _ = scene.while_it_hangs(lambda: os.kill(os.getpid(), signal.SIGUSR1))
    assert code == 75
    assert scene.end[:2] == (Cause.WARNED, "requeue")


def test_a_persons_stop_during_preflight_ends_the_run(scene: Scene) -> None:
    code, pids = scene.while_it_hangs(scene.run.stop_file.touch)
    assert code == 76
    assert scene.end[:2] == (Cause.OPERATOR_STOP, "stop")
    ended = scene.attempt().ended
    assert ended is not None
    assert ended.because == "somebody asked the run to stop while preflight ran"
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of all that was killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_slurm_a_signal_is_a_persons_word(scene: Scene, number: signal.Signals) -> None:
    scene.mode, scene.nodes = Mode.LOCAL, 1
    code, _ = scene.while_it_hangs(lambda: os.kill(os.getpid(), number))
    assert code == 76
    assert scene.end[:2] == (Cause.OPERATOR_STOP, "stop")


def test_without_slurm_a_sick_machine_is_refused_for_there_is_no_other(scene: Scene) -> None:
    scene.mode, scene.nodes, scene.job_nodes = Mode.LOCAL, 1, 1
    scene.finds(SICK | {"node": "n1"})
    assert scene.supervise() == 77


def test_a_job_with_no_time_for_it_trains_at_once(scene: Scene) -> None:
    scene.slurm.jobs["7"] = running(start_s=SystemClock().now_s() - 4000, end_s=SystemClock().now_s() + 30)
    scene.finds(FULL)
    scene.supervise()
    assert len(scene.steps) == 1
    assert any("no preflight: the job has" in text for text in scene.said)


def test_on_the_same_nodes_the_longest_check_is_done_once(scene: Scene) -> None:
    notes = scene.folder / "words"
    scene.finds()
    noting = f"import sys\nopen({str(notes)!r}, 'a').write(' '.join(sys.argv[2:]) + '\\n')\n{WRITES_A_REPORT}"
    scene.does(noting, str(scene.folder / "finds.json"))
    scene.supervise()
    scene.slurm.jobs["7"] = running(restarts=1, nodes="n[1-3]")
    scene.supervise()
    assert [line.split().count("--no-all-reduce") for line in notes.read_text().splitlines()] == [0, 1]


VERDICT = PreflightVerdict(
    Then.REFUSE, "storage: the disk is full", ("n1", "n2"), (), ("storage",), REMEDY, ("n1: clock: it is 2 s ahead",)
)


@pytest.mark.parametrize(
    ("verdict", "cause", "decision", "exclude"),
    [
        (VERDICT, Cause.PREFLIGHT, "stop", ()),
        (replace(VERDICT, then=Then.STOPPED, because="somebody said stop"), Cause.OPERATOR_STOP, "stop", ()),
        (
            replace(VERDICT, then=Then.LEAVE_OUT, unfit=(Unfit("n2", ("gpu: 3 ECC errors",)),)),
            Cause.NODE_FAILURE,
            "requeue",
            ("n2",),
        ),
    ],
)
def test_an_end_that_the_supervisor_could_not_tell_is_told_from_the_attempts_folder(
    tmp_path: Path, verdict: PreflightVerdict, cause: Cause, decision: str, exclude: tuple[str, ...]
) -> None:
    world = World(tmp_path)
    world.begin()
    write_verdict(world.run, 1, verdict)
    assert read_verdict(world.run, 1) == verdict
    world.ending().conclude(1, Seen(None, (), True, 2, None))
    ended = world.attempt().ended
    assert ended is not None
    assert (ended.cause, ended.decision, ended.exclude) == (cause, decision, exclude)


@pytest.mark.parametrize("text", ["", "{", "null", "[1]", '{"format": 9}', '{"format": 1, "then": "dance"}'])
def test_a_verdict_that_nobody_can_read_is_none(scene: Scene, text: str) -> None:
    scene.run.attempt(1).mkdir(parents=True)
    verdict_path(scene.run, 1).write_text(text)
    assert read_verdict(scene.run, 1) is None
