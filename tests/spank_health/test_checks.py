"""What all checks have in common."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .machine import CHECKS, HEALTHY, Machine

NAMES = sorted(path.name for path in CHECKS.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_where_nothing_is_to_be_checked_a_check_is_silent(machine: Machine, name: str) -> None:
    (machine.proc / "mounts").touch()
    machine.command_says(
        "df", "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 100 1 99 1% /dev/shm\n"
    )
    folders = str(machine.folder / "shm")
    assert machine.check(name, LOCAL_FOLDERS=folders) == HEALTHY


@pytest.mark.parametrize("name", NAMES)
def test_a_check_is_short_executable_and_belongs_to_no_shell_in_particular(name: str) -> None:
    lines = (CHECKS / name).read_text().splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1].startswith("# ")
    assert len(lines) < 60
    assert (CHECKS / name).stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_has_nothing_to_say() -> None:
    said = subprocess.run(
        ["shellcheck", *[str(CHECKS / name) for name in NAMES]],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert said.stdout == ""


def test_what_the_site_sets_in_its_file_is_read(machine: Machine) -> None:
    machine.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
    assert machine.check("infiniband").code == 1
    machine.write("etc/health.conf", "INFINIBAND_IGNORE='mlx5_9/1 mlx5_0/1'\n")
    assert machine.check("infiniband") == HEALTHY
