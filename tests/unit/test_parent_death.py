"""Who has started a process takes it along."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from slurm_resilience import parent_death

FORK = """\
import os, signal
from slurm_resilience.parent_death import die_with_parent
parent = os.getpid()
if os.fork() == 0:
    print(die_with_parent(parent), os.getpid(), flush=True)
signal.pause()
"""
ORPHAN = """\
from slurm_resilience.parent_death import die_with_parent
die_with_parent(2 ** 31 - 1)
"""


def test_a_child_ends_with_its_parent_even_if_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", FORK], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        held, child = parent.stdout.readline().split()
        parent.kill()
        try:
            assert parent.stdout.read() == ""  # the end: nobody holds the other side any more
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
            raise
    assert held == "True"


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    assert subprocess.run([sys.executable, "-c", ORPHAN], check=False, timeout=100).returncode == -signal.SIGKILL


def test_where_the_kernel_refuses_it_is_said_and_the_process_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent_death, "_prctl", lambda *_: -1)
    assert not parent_death.die_with_parent(os.getppid())
    monkeypatch.setattr(parent_death, "_prctl", None)
    assert not parent_death.die_with_parent(os.getppid())
