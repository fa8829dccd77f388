"""leftover-processes: who is an orphan, and who only looks like one."""

from __future__ import annotations

import pytest

from .machine import HEALTHY, Answer, Machine

LARGE = 2000


@pytest.fixture(autouse=True)
def _system(machine: Machine) -> None:
    machine.process(1, "systemd", 0, parent=0)
    machine.process(2, "kthreadd", 0, parent=0)
    machine.process(50, "sshd", 0)
    machine.process(60, "slurmd", 0, cgroup="/system.slice/slurmd.service")


def test_a_large_orphan_of_a_user_without_a_job_is_told(machine: Machine) -> None:
    machine.process(300, "python3 train", 1001, rss_mib=LARGE)
    machine.process(301, "pt_data_worker", 1001, parent=300, rss_mib=48)
    said = machine.check("leftover-processes")
    assert said in (
        Answer(1, "uid 1001 has no job here and 2 processes (python3) with 2048 MiB"),
        Answer(1, "uid 1001 has no job here and 2 processes (pt_data_worker) with 2048 MiB"),
    )


def test_a_small_orphan_is_told_only_if_it_has_a_gpu_open(machine: Machine) -> None:
    machine.process(300, "python", 1001)
    files = machine.proc / "300" / "fd"
    files.mkdir()
    (files / "0").symlink_to("/dev/null")
    (files / "1").symlink_to("/dev/nvidiactl")
    assert machine.check("leftover-processes") == HEALTHY
    (files / "2").symlink_to("/dev/nvidia3")
    assert machine.check("leftover-processes") == Answer(
        1, "uid 1001 has no job here and 1 processes (python) with 10 MiB, with a GPU open"
    )


def test_orphans_inside_slurms_own_services_are_told(machine: Machine) -> None:
    machine.process(300, "python", 1001, rss_mib=LARGE, cgroup="/system.slice/slurmd.service")
    assert machine.check("leftover-processes").code == 1


def test_a_running_job_and_what_else_its_user_has_are_none(machine: Machine) -> None:
    machine.process(100, "slurmstepd", 0)
    machine.process(101, "bash", 1001, parent=100)
    machine.process(102, "python", 1001, parent=101, rss_mib=LARGE)
    machine.process(300, "python", 1001, rss_mib=LARGE)
    assert machine.check("leftover-processes") == HEALTHY


def test_a_program_that_calls_itself_slurmstepd_hides_nobody(machine: Machine) -> None:
    machine.process(300, "slurmstepd", 1001, rss_mib=LARGE)
    machine.process(301, "python", 1001, parent=300, rss_mib=LARGE)
    assert machine.check("leftover-processes").code == 1


@pytest.mark.parametrize(
    ("name", "uid", "parent", "cgroup"),
    [
        ("bash", 1001, 50, "/user.slice/user-1001.slice/session-3.scope"),
        ("systemd", 1001, 1, "/user.slice/user-1001.slice/user@1001.service/init.scope"),
        ("node_exporter", 1001, 1, "/system.slice/node_exporter.service"),
        ("postgres", 70, 1, "/"),
        ("udevd", 0, 1, "/"),
    ],
)
def test_logins_services_and_the_system_are_none(
    machine: Machine, name: str, uid: int, parent: int, cgroup: str
) -> None:
    machine.process(300, name, uid, parent=parent, rss_mib=LARGE, cgroup=cgroup)
    machine.process(301, "child", uid, parent=300, rss_mib=LARGE, cgroup=cgroup)
    assert machine.check("leftover-processes") == HEALTHY


def test_the_dead_hold_nothing(machine: Machine) -> None:
    machine.process(300, "python", 1001, rss_mib=LARGE)
    status = machine.proc / "300" / "status"
    status.write_text(status.read_text().replace("S (sleeping)", "Z (zombie)"))
    assert machine.check("leftover-processes") == HEALTHY
