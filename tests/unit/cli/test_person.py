from __future__ import annotations

import os
import pwd

import pytest

from slurm_resilience.cli.person import this_person


def test_a_person_has_the_name_of_its_user() -> None:
    assert this_person() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that was started with a number of its own."""
    monkeypatch.setattr(os, "getuid", lambda: 123_456_789)
    assert this_person() == "user 123456789"
