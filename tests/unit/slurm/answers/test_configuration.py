"""`scontrol show config`."""

from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.configuration import read_configuration
from slurm_resilience.slurm.client import SlurmConfiguration

CONFIGURATION = """Configuration data as of 2026-11-29T20:55:24
AccountingStorageType   = accounting_storage/none
AuthInfo                = socket=/run/munge,cred_expire=5
ClusterName             = sandbox-vyt
JobRequeue              = 1
KillWait                = 10 sec
OverTimeLimit           = 0 min
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
ProctrackType           = proctrack/linuxproc
RequeueExit             = 85,90-92
RequeueExitHold         = (null)
SchedulerParameters     = sched_interval=1
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at vm is UP
"""


def read(*lines: str) -> SlurmConfiguration:
    return read_configuration(CONFIGURATION + "\n".join(lines) + "\n")


def test_the_configuration_is_read_with_units() -> None:
    said = read()
    assert (said.kill_wait_s, said.cluster, said.requeue_exit) == (10, "sandbox-vyt", (85, 90, 91, 92))
    assert (said.over_time_limit_s, said.max_batch_requeue, said.requeue_exit_hold) == (0, None, ())
    assert (said.preempt_type, said.accounting, said.user_signal_first) == ("preempt/partition_prio", False, False)
    assert said.release == (22, 5)


def test_a_real_one_of_24_11_is_read() -> None:
    recorded = Path(__file__).parents[3] / "recorded" / "24.11" / "answers" / "scontrol-config"
    said = read_configuration(recorded.read_text())
    assert (said.release, said.preempt_mode, said.max_batch_requeue) == ((24, 11), "REQUEUE", 5)


@pytest.mark.parametrize(
    ("line", "delay_s"),
    [
        ("", 6),
        ("AuthInfo = (null)", 121),
        ("SchedulerParameters = bf_interval=1,requeue_delay=7", 7),
        ("SchedulerParameters = requeue_delay=0", 0),
        ("SchedulerParameters = no_requeue_delay=3", 6),
    ],
)
def test_a_requeue_waits_as_long_as_a_credential_lives_and_a_second(line: str, delay_s: int) -> None:
    assert read(line).requeue_delay_s == delay_s


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("PreemptParameters = youngest_first,send_user_signal", True),
        ("SlurmctldParameters = preempt_send_user_signal", True),
        ("PreemptParameters = (null)", False),
    ],
)
def test_whether_a_preemption_sends_the_jobs_own_signal(line: str, first: bool) -> None:
    assert read(line).user_signal_first is first


def test_only_slurmdbd_is_accounting() -> None:
    assert read("AccountingStorageType = accounting_storage/slurmdbd").accounting
    assert not read("AccountingStorageType = accounting_storage/filetxt").accounting


def test_what_a_plugin_says_is_not_the_clusters() -> None:
    assert read("    KillWait = 99 sec").kill_wait_s == 10


def test_a_configuration_without_killwait_is_not_guessed_at() -> None:
    with pytest.raises(SlurmUnparsable, match="KillWait"):
        read_configuration("ClusterName = x\n")
