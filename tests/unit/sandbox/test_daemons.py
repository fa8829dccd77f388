"""What a daemon's last words mean."""

from __future__ import annotations

import pytest

from slurm_resilience.sandbox.daemons import DaemonFailed


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
