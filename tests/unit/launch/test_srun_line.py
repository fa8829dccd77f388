"""The exact srun line."""

import pytest

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_line import (
    Layout,
    not_obeyed,
    srun_argv,
    srun_environment,
    wait_of_plain_command,
    without_nodes,
)
from slurm_resilience.launch.srun_options import split

AGENT = ("python", "-m", "slurm_resilience.agent", "plan.json")


def test_torchrun_gets_one_task_a_node_with_all_cpus_whatever_the_user_laid_out() -> None:
    line = split("-N2 -n 8 --ntasks-per-node=4 -c2 -K1 --label true".split())
    argv = srun_argv(line, Layout(2, 16), kind=CommandKind.TORCHRUN, command=AGENT)
    assert argv == [
        *("srun", "--label", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"),
        *("--kill-on-bad-exit=0", "--wait=60", "--cpus-per-task=16", *AGENT),
    ]


def test_a_plain_command_keeps_its_layout_but_no_peer_is_killed_while_it_saves() -> None:
    line = split("-n 8 -K1 --mpi=pmix ./a.out".split())
    argv = srun_argv(line, Layout(2, None), kind=CommandKind.TASK, command=AGENT)
    assert argv == ["srun", "-n", "8", "--mpi=pmix", "--kill-on-bad-exit=0", *AGENT]


def test_the_jobs_layout_does_not_leak_into_torchruns_step() -> None:
    environment = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4", "HOME": "/h"}
    assert srun_environment(environment, CommandKind.TORCHRUN) == {"SLURM_JOB_ID": "7", "HOME": "/h"}
    assert srun_environment(environment, CommandKind.TASK) == environment


@pytest.mark.parametrize(
    ("words", "environment", "kind", "said"),
    [
        ("true", {}, CommandKind.TORCHRUN, []),
        ("-K1 true", {}, CommandKind.TORCHRUN, ["-K1"]),
        ("--kill-on-bad-exit true", {}, CommandKind.TASK, ["--kill-on-bad-exit"]),
        ("--kill-on-bad-exit=0 true", {}, CommandKind.TORCHRUN, []),  # as we have it ourselves
        ("-W 5 true", {}, CommandKind.TORCHRUN, ["-W 5"]),
        ("-W 5 true", {}, CommandKind.TASK, []),  # a plain command keeps it
        ("true", {"SLURM_KILL_BAD_EXIT": "1"}, CommandKind.TASK, ["SLURM_KILL_BAD_EXIT=1"]),
        ("true", {"SLURM_WAIT": "5", "SLURM_KILL_BAD_EXIT": "0"}, CommandKind.TORCHRUN, ["SLURM_WAIT=5"]),
        ("-K1 --wait=5 true", {}, CommandKind.TORCHRUN, ["-K1", "--wait=5"]),
    ],
)
def test_what_is_not_obeyed_of_sruns_options_is_said(
    words: str, environment: dict[str, str], kind: CommandKind, said: list[str]
) -> None:
    sentences = not_obeyed(split(words.split()), environment, kind)
    assert [sentence.partition(" is not obeyed: ")[0] for sentence in sentences] == said


def test_a_plain_commands_wait_is_its_own() -> None:
    assert wait_of_plain_command(split("--wait=5 true".split()), {"SLURM_WAIT": "7"}) == 5
    assert wait_of_plain_command(split(["true"]), {"SLURM_WAIT": "7"}) == 7
    assert wait_of_plain_command(split(["true"]), {}) is None


def test_the_plugin_is_asked_for_before_the_command() -> None:
    for kind in CommandKind:
        argv = srun_argv(split(["true"]), Layout(1, None), kind=kind, command=AGENT, plugin=True)
        assert argv[-len(AGENT) - 1 :] == ["--resilient", *AGENT]


def test_the_plugin_is_told_the_run_and_that_the_step_is_looked_after() -> None:
    for kind in CommandKind:
        environment = srun_environment({"HOME": "/h"}, kind, run="/runs/r", attempt=3)
        told = {"SLURM_RESILIENCE_RUN": "/runs/r", "SLURM_RESILIENCE_ATTEMPT": "3"}
        assert environment == {"HOME": "/h"} | told


@pytest.mark.parametrize(
    ("words", "nodes", "exclude"),
    [
        ("true", (), None),
        ("-x a true", (), "a"),
        ("true", ("n2", "n1"), "n1,n2"),
        ("-x a[1-2] true", ("n1",), "a[1-2],n1"),
    ],
)
def test_nodes_to_avoid_are_added_to_the_users(words: str, nodes: tuple[str, ...], exclude: str | None) -> None:
    line = without_nodes(split(words.split()), nodes)
    assert line.value("exclude") == exclude
    assert len([option for option in line.options if option.name == "exclude"]) == (exclude is not None)
