"""What the agent starts, word by word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.agent.command_line import command, environment
from slurm_resilience.agent.place import place
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind, Plan, Rendezvous, StopTimes

PLAN = Plan(
    run="/runs/r1",
    run_id="r1",
    attempt=3,
    kind=CommandKind.TORCHRUN,
    argv=("--tee=3", "train.py", "--lr=1"),
    python="/opt/python",
    nodes=4,
    nproc_per_node=8,
    rendezvous=Rendezvous("n17", 23456, "77.2"),
    local_addr=None,
    interface=None,
    forward_signal=None,
    end_s=None,
    stop_before_end_s=60,
    times=StopTimes(20, 100, 5, 8),
    runtime_parent="/dev/shm",
    supervisor_host="n17",
    supervisor_boot_id="",
    supervisor_pid=1,
    supervisor_started_ticks=1,
    can_requeue=True,
)


def test_torchrun_gives_ranks_by_node_id_and_never_restarts_them_itself():
    argv = command(PLAN, node_id=2)
    assert argv[:3] == ["/opt/python", "-m", "slurm_resilience.integrations.torchrun"]
    options = set(argv[3:-3])
    assert options == {
        "--nproc-per-node=8",
        "--max-restarts=0",
        "--nnodes=4",
        "--node-rank=2",
        "--rdzv-backend=static",
        "--master-addr=n17",
        "--master-port=23456",
        "--rdzv-id=77.2",
    }
    assert argv[-3:] == ["--tee=3", "train.py", "--lr=1"]  # the user's own options after ours, his script last


def test_one_node_needs_no_rendezvous_and_several_do():
    assert "--standalone" in command(replace(PLAN, nodes=1, rendezvous=None), 0)
    with pytest.raises(ConfigurationError):
        command(replace(PLAN, rendezvous=None), 0)


def test_an_address_of_the_plan_is_handed_to_torchrun():
    assert "--local-addr=10.0.0.1" in command(replace(PLAN, local_addr="10.0.0.1"), 0)


def test_a_task_is_started_as_it_is_and_an_empty_one_is_refused():
    task = replace(PLAN, kind=CommandKind.TASK, argv=("gmx", "mdrun"))
    assert command(task, 2) == ["gmx", "mdrun"]
    with pytest.raises(ConfigurationError):
        command(replace(task, argv=()), 2)


def test_the_environment_is_the_inherited_one_with_ours_in_it():
    found = environment(PLAN, {"HOME": "/h", "GLOO_SOCKET_IFNAME": "eth7"}, Path("/dev/shm/x"), "marker")
    assert found["HOME"] == "/h"
    assert found["GLOO_SOCKET_IFNAME"] == "eth7"  # the plan has no opinion
    assert found["SLURM_RESILIENCE_TREE"] == "marker"
    assert environment(replace(PLAN, interface="ib0"), found, Path("/x"), "m")["GLOO_SOCKET_IFNAME"] == "ib0"


@pytest.mark.parametrize(
    ("planned_s", "given", "word"),
    [(None, None, None), (612.2, None, "613"), (612.2, "30", "613"), (612.2, "900", "900"), (1e12, None, "604800")],
)
def test_torchrun_is_never_told_to_be_less_patient_than_planned(planned_s, given, word):
    inherited = {} if given is None else {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": given}
    found = environment(replace(PLAN, shutdown_timeout_s=planned_s), inherited, Path("/x"), "m")
    assert found.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") == word


def test_an_agent_of_a_node_is_named_by_its_node_and_one_of_a_task_by_its_task():
    slurm = {"SLURM_NODEID": "2", "SLURM_PROCID": "17", "SLURM_LOCALID": "1", "SLURMD_NODENAME": "n19"}
    node, task = place(CommandKind.TORCHRUN, slurm), place(CommandKind.TASK, slurm)
    assert (node.name, node.slot, node.local_task, node.host) == ("n2", 2, None, "n19")
    assert (task.name, task.slot, task.local_task) == ("t17", 17, 1)


def test_outside_slurm_an_agent_is_the_first_one():
    assert place(CommandKind.TORCHRUN, {}).slot == place(CommandKind.TASK, {}).slot == 0


def test_torchrun_is_left_to_count_what_only_the_node_can_count():
    options = command(replace(PLAN, nproc_per_node="gpu"), 0)
    assert "--nproc-per-node=gpu" in options
