"""What a daemon's last words mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.sandbox.daemons import DaemonFailed, daemon_path
from slurm_resilience.sandbox.find import PACKAGE_OF, find_slurm


@pytest.mark.parametrize(
    ("last_line", "taken"),
    [
        # slurmctld and slurmd of 24.11.5, slurmd of 22.05.8
        (
            (
                "fatal: _open_ports: Unable to listen to file descriptors. Existing slurmctld process likely already is"
                " listening on the ports."
            ),
            True,
        ),
        ("fatal: Unable to bind listen port (22583): Address already in use", True),
        ("error: Unable to bind listen port (31297): Address already in use", True),
        ("fatal: Can't find plugin for select/nonsense", False),
        ("error: Retrying initial connection to slurmdbd", False),
        ("", False),
    ],
)
def test_a_port_that_somebody_else_has_is_told_from_every_other_failure(last_line: str, taken: bool) -> None:
    assert DaemonFailed("slurmctld", last_line).port_was_taken == taken


def test_the_guard_finds_the_slurm_that_its_cluster_was_made_with_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """It looks on its own PATH, and would leave the cluster behind where it found none."""
    for name in PACKAGE_OF:
        program = tmp_path / ("sbin" if name.endswith("d") else "bin") / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho slurm 24.11.5\n")
        program.chmod(0o755)
    installation = find_slurm([str(tmp_path / "bin"), str(tmp_path / "sbin")])
    folders = daemon_path(installation.programs.values()).split(":")
    assert folders[:4] == ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    assert {str(tmp_path / "bin"), str(tmp_path / "sbin")} <= set(folders)
