"""What an attempt is granted, and the plan and the line that follow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slurm_resilience.launch.plan import CommandKind, read_plan, write_plan
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.process_identity import Identity
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.signals.ladder import Asked
from slurm_resilience.slurm.facts import JobFacts, job_facts
from slurm_resilience.supervisor.preparation import (
    LOCAL_STOP_S,
    UNKNOWN_KILL_WAIT_S,
    Granted,
    Prepared,
    ask_what_is_granted,
    make_ladder,
    measured_in,
    prepare,
)
from slurm_resilience.supervisor.request import Request
from slurm_resilience.supervisor.surroundings import Mode, choose_shape
from tests.faults.fake_slurm import FakeSlurm, running
from tests.unit.cli.told_runs import saved, started, tell
from tests.unit.supervisor.requests import request

TWO_NODES = {"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": "2", "SLURM_CLUSTER_NAME": "c1"}


def facts(**more: str) -> JobFacts:
    found = job_facts(TWO_NODES | more)
    assert found is not None
    return found


def ask(slurm: FakeSlurm | None, here: JobFacts | None, words: str = "python t.py") -> tuple[Granted, list[str]]:
    said: list[str] = []
    return ask_what_is_granted(slurm, here, request(words), 1000.0, said.append), said


def prepared(wanted: Request, mode: Mode = Mode.BATCH, here: JobFacts | None = None, **environment: str) -> Prepared:
    here = here if here is not None or mode in (Mode.LOCAL, Mode.LOGIN) else facts()
    granted, _ = ask(FakeSlurm({"7": running(end_s=5000.0)}), here)
    return prepare(
        wanted,
        mode,
        choose_shape(wanted, here, mode),
        make_ladder(granted, None, wanted),
        granted,
        run=Path("/runs/r"),
        run_id="r1",
        attempt=3,
        plan_path=Path("/runs/r/attempts/0003/plan.json"),
        environment=environment,
        can_requeue=mode is Mode.BATCH,
    )


def test_slurm_says_how_long_what_may_take() -> None:
    granted, said = ask(FakeSlurm({"7": running(start_s=100.0, end_s=5000.0)}), facts())
    assert (granted.times.kill_wait_s, granted.times.grace_time_s) == (30.0, 15.0)
    assert (granted.times.start_s, granted.times.end_s) == (100.0, 5000.0)
    assert granted.cluster == "c1"
    assert said == []


def test_from_a_login_node_the_partition_that_is_asked_for_counts() -> None:
    granted, _ = ask(FakeSlurm(), None, "-N2 --partition=low,high python t.py")
    assert granted.times.grace_time_s == 15.0
    assert granted.cluster == "fake"
    assert granted.record is None


def test_where_slurm_does_not_answer_its_defaults_are_used_and_said() -> None:
    granted, said = ask(FakeSlurm(silent_for=10), facts(SLURM_JOB_END_TIME="5000"))
    assert (granted.times.kill_wait_s, granted.times.grace_time_s) == (UNKNOWN_KILL_WAIT_S, 0.0)
    assert granted.times.end_s == 5000.0  # the environment knows that one
    assert granted.cluster == "c1"
    assert "going on with KillWait 30 s and GraceTime 0 s" in said[0]


def test_what_slurm_said_before_it_fell_silent_is_kept() -> None:
    granted, said = ask(FakeSlurm({"7": running(partition="nowhere", end_s=5000.0)}), facts())
    assert granted.times.kill_wait_s == 30.0
    assert granted.times.end_s == 5000.0
    assert "nowhere" in said[0]


def test_without_slurm_a_person_waits_for_the_save() -> None:
    granted, _ = ask(None, None)
    assert granted.times.kill_wait_s == LOCAL_STOP_S
    assert granted.times.end_s is None
    assert granted.record is None


def test_the_longest_save_of_the_run_is_what_was_measured(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), saved(10, 1), saved(20, 1))
    chain = Chain.of(Journal(run).read())
    assert measured_in(chain).save_s == 2.5
    assert measured_in(None).save_s is None


def test_the_agents_are_told_everything_in_one_plan(tmp_path: Path) -> None:
    wanted = request("torchrun --nproc-per-node=4 t.py", limits=Limits(5, 6), asked=Asked(stop_before_end_s=90.0))
    plan = prepared(wanted).plan
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan
    assert (plan.kind, plan.nodes, plan.nproc_per_node, plan.tasks) == (CommandKind.TORCHRUN, 2, 4, 2)
    assert plan.limits == Limits(5, 6)
    assert plan.stop_before_end_s == 90.0
    assert plan.end_s == 5000.0
    assert plan.can_requeue
    me = Identity.of_this_process()
    assert (plan.supervisor_pid, plan.supervisor_started_ticks) == (me.pid, me.started_ticks)


@pytest.mark.parametrize("word", ["gpu", "cpu", "auto"])
def test_what_only_the_node_can_count_is_left_to_torchrun(word: str, tmp_path: Path) -> None:
    plan = prepared(request("python t.py", nproc=word)).plan
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json").nproc_per_node == word


def test_torchrun_gets_one_task_a_node_whatever_the_job_was_laid_out_for() -> None:
    found = prepared(request("--mem=0 torchrun t.py"), here=facts(SLURM_NTASKS="8"), SLURM_NTASKS="8", HOME="/h")
    assert found.argv[0] == "srun"
    assert {"--mem=0", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=0"} <= set(found.argv)
    assert found.argv[-4:] == (sys.executable, "-m", "slurm_resilience.agent", "/runs/r/attempts/0003/plan.json")
    assert found.environment == {"HOME": "/h"}


@pytest.mark.parametrize(
    ("words", "more", "tasks"),
    [
        ("--ntasks=5 ./a.out", {}, 5),
        ("-n5 ./a.out", {}, 5),
        ("--ntasks-per-node=3 ./a.out", {}, 6),
        ("-N1 --ntasks-per-node=3 ./a.out", {}, 3),
        ("./a.out", {"SLURM_NTASKS": "4"}, 4),
        ("./a.out", {}, 2),
        ("torchrun t.py", {"SLURM_NTASKS": "8"}, 2),
    ],
)
def test_as_many_agents_are_expected_as_srun_starts(words: str, more: dict[str, str], tasks: int) -> None:
    assert prepared(request(words), here=facts(**more)).plan.tasks == tasks


def test_a_plain_command_keeps_the_users_layout() -> None:
    found = prepared(request("-n5 --cpus-per-task=2 ./a.out"), SLURM_NTASKS="5")
    assert found.argv[:4] == ("srun", "-n5", "--cpus-per-task=2", "--kill-on-bad-exit=0")
    assert found.environment == {"SLURM_NTASKS": "5"}


def test_without_slurm_the_agent_is_started_itself() -> None:
    found = prepared(request("python t.py", mode="local"), Mode.LOCAL)
    assert found.argv[0] == sys.executable
    assert (found.plan.tasks, found.plan.nodes) == (1, 1)
    assert not found.plan.can_requeue
