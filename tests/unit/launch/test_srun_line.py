"""The exact srun line."""

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_line import Layout, srun_argv, srun_environment
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
