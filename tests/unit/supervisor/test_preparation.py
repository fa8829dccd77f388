"""What an attempt is granted, and the plan and the line that follow."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError, SlurmRejected
from slurm_resilience.launch.plan import CommandKind, read_plan, write_plan
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.process_identity import Identity
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.signals.ladder import Asked
from slurm_resilience.signals.user_signal import UserSignal
from slurm_resilience.slurm.client import JobRef, QosRecord, SlurmConfiguration, Submission
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
    to_avoid,
)
from slurm_resilience.supervisor.request import Request
from slurm_resilience.supervisor.surroundings import Mode, choose_shape
from tests.faults.fake_slurm import CONFIGURATION, FakeSlurm, running
from tests.unit.cli.told_runs import ended, saved, started, tell
from tests.unit.supervisor.requests import request

FOR_THE_PLUGIN = {"SLURM_RESILIENCE_RUN": "/runs/r", "SLURM_RESILIENCE_ATTEMPT": "3"}
TWO_NODES = {"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": "2", "SLURM_CLUSTER_NAME": "c1"}


def facts(**more: str) -> JobFacts:
    found = job_facts(TWO_NODES | more)
    assert found is not None
    return found


def ask(
    slurm: FakeSlurm | None, here: JobFacts | None, words: str = "python t.py", **environment: str
) -> tuple[Granted, list[str]]:
    said: list[str] = []
    return ask_what_is_granted(slurm, here, request(words), 1000.0, said.append, environment), said


def prepared(
    wanted: Request,
    mode: Mode = Mode.BATCH,
    here: JobFacts | None = None,
    *,
    plugin: bool = False,
    avoid: tuple[str, ...] = (),
    **environment: str,
) -> Prepared:
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
        plugin=plugin,
        avoid=avoid,
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


QOS = QosRecord("long", 40, "cluster")


class WithQos(FakeSlurm):
    """A cluster with accounting."""

    def qos(self, name: str) -> QosRecord | None:
        return replace(QOS, name=name)


def cluster(**changed: object) -> SlurmConfiguration:
    return replace(CONFIGURATION, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slurm", "grace_s", "grace_of", "mode"),
    [
        (FakeSlurm, 15, "the partition", ""),  # no word about how it preempts: unknown
        (WithQos, 40, "QOS long", "REQUEUE"),
        (FakeSlurm, 0, "the QOS, which can't be asked", ""),
    ],
)
def test_the_grace_is_that_of_who_preempts(slurm: type[FakeSlurm], grace_s: float, grace_of: str, mode: str) -> None:
    kind = "" if grace_of == "the partition" else "preempt/qos"
    granted, _ = ask(slurm({"7": running(qos="long")}, configured=cluster(preempt_type=kind)), facts())
    times = granted.times
    assert (times.grace_time_s, times.grace_of, times.preempt_mode) == (grace_s, grace_of, mode)


def test_a_partitions_way_to_preempt_counts_where_partitions_preempt() -> None:
    granted, _ = ask(FakeSlurm({"7": running()}, configured=cluster(preempt_type="preempt/partition_prio")), facts())
    assert granted.times.preempt_mode == "REQUEUE"
    granted, _ = ask(FakeSlurm({"7": running()}, configured=cluster(preempt_type="preempt/none")), facts())
    assert granted.times.preempt_mode == "OFF"


def test_over_time_is_the_clusters_where_the_partition_has_none() -> None:
    granted, _ = ask(FakeSlurm({"7": running()}, configured=cluster(over_time_limit_s=300)), facts())
    assert granted.times.over_time_limit_s == 300


def submitted(script: str) -> FakeSlurm:
    return FakeSlurm({"7": running()}, submitted={"7": Submission(script, (), {})})


def test_the_jobs_own_warning_is_known_where_it_is_written() -> None:
    slurm = submitted("#!/bin/bash\n#SBATCH --signal=B:USR1@90\nexec srun-resilient t.py\n")
    granted, said = ask(slurm, facts())
    assert granted.times.user_signal == UserSignal("USR1", 90, True, "#SBATCH --signal")
    granted, _ = ask(slurm, facts(), SBATCH_SIGNAL="USR2@30")
    assert granted.times.user_signal == UserSignal("USR2", 30, False, "SBATCH_SIGNAL")
    granted, _ = ask(FakeSlurm(), None, "--signal=USR1@30 --partition=low python t.py")
    assert granted.times.user_signal == UserSignal("USR1", 30, False, "srun's --signal")
    assert said == []


class Secretive(FakeSlurm):
    def batch_script(self, job: JobRef) -> str:
        raise SlurmRejected(f"job script retrieval failed for job {job}")


def test_a_script_that_slurm_does_not_show_is_no_matter() -> None:
    granted, said = ask(Secretive({"7": running(end_s=5000.0)}), facts())
    assert granted.times.user_signal is None
    assert granted.times.grace_time_s == 15
    assert said == []


def test_what_is_not_obeyed_is_among_what_is_said_at_the_start() -> None:
    wanted = request("--wait=5 -K1 python t.py")
    granted, _ = ask(FakeSlurm({"7": running()}), facts(), SLURM_KILL_BAD_EXIT="1")
    sentences = make_ladder(granted, None, wanted).inversions
    assert [sentence.partition(" is not")[0] for sentence in sentences] == ["-K1", "--wait=5"]


def test_a_plain_commands_short_wait_is_named_once_a_save_was_measured(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), saved(10, 1), saved(20, 1))
    chain = Chain.of(Journal(run).read())
    granted, _ = ask(FakeSlurm({"7": running()}), facts())
    assert any("--wait=1 " in s for s in make_ladder(granted, chain, request("--wait=1 ./a.out")).inversions)


def test_a_lead_longer_than_the_time_is_refused_but_not_in_a_grace_period() -> None:
    wanted = request("python t.py", asked=Asked(stop_before_end_s=500.0))

    def granted(preempted_s: float | None = None) -> Granted:
        slurm = FakeSlurm({"7": running(start_s=0.0, end_s=400.0, preempted_s=preempted_s)})
        return ask_what_is_granted(slurm, facts(), wanted, 1000.0, lambda _: None)

    with pytest.raises(ConfigurationError, match="longer than the job's whole time"):
        granted()
    make_ladder(granted(preempted_s=385.0), None, wanted)


def test_the_slowest_steps_are_measured_between_two_checkpoints_of_one_attempt(tmp_path: Path) -> None:
    chain = Chain.of(Journal(tell(tmp_path / "run", started(1), saved(10, 1), saved(20, 1))).read())
    first, second = chain.checkpoints
    told = replace(chain, checkpoints=(replace(first, time_s=100.0), replace(second, time_s=150.0)))
    assert measured_in(told).step_s == 5.0
    assert measured_in(replace(chain, checkpoints=chain.checkpoints[:1])).step_s is None


def test_srun_waits_and_torchrun_is_patient_as_the_ladder_says() -> None:
    found = prepared(request("python t.py", asked=Asked(stop_timeout_s=1000.0)))
    [wait] = [word for word in found.argv if word.startswith("--wait=")]
    assert int(wait.partition("=")[2]) > 1000
    assert found.plan.shutdown_timeout_s is not None
    assert found.plan.shutdown_timeout_s >= 1000
    assert (found.plan.start_s, found.plan.over_time_limit_s) == (0.0, 0.0)


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
    assert found.environment == {"HOME": "/h", **FOR_THE_PLUGIN}


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
    assert found.environment == {"SLURM_NTASKS": "5", **FOR_THE_PLUGIN}


def test_without_slurm_the_agent_is_started_itself() -> None:
    found = prepared(request("python t.py", mode="local"), Mode.LOCAL)
    assert found.argv[0] == sys.executable
    assert (found.plan.tasks, found.plan.nodes) == (1, 1)
    assert not found.plan.can_requeue


@pytest.mark.parametrize("words", ["torchrun t.py", "-n5 ./a.out"])
def test_where_srun_knows_our_plugin_it_is_asked_for_it(words: str) -> None:
    assert "--resilient" in prepared(request(words), plugin=True).argv
    assert "--resilient" not in prepared(request(words)).argv


def test_a_srun_that_gets_its_nodes_itself_is_told_which_ones_not_to_take() -> None:
    found = prepared(request("-x n9 -N2 torchrun t.py"), Mode.LOGIN, avoid=("n3", "n1"))
    assert "--exclude=n9,n1,n3" in found.argv
    assert "-x" not in found.argv


def test_the_nodes_to_avoid_are_those_of_all_ends_of_the_run(tmp_path: Path) -> None:
    first, second = (replace(ended(number), exclude=(f"n{number}", "n7")) for number in (1, 2))
    run = tell(tmp_path / "run", started(1), first, started(2), second, started(3))
    assert to_avoid(Chain.of(Journal(run).read())) == ("n1", "n7", "n2")
    assert to_avoid(None) == ()
