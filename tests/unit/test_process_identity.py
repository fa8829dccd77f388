from __future__ import annotations

import os
import signal
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience import process_identity
from slurm_resilience.process_identity import Identity, Liveness, liveness, started_ticks

ME = Identity.of_this_process()


def test_this_process_is_alive() -> None:
    assert liveness(ME) is Liveness.ALIVE
    assert liveness(replace(ME, pid_namespace=None)) is Liveness.ALIVE


def test_a_number_used_again_by_a_later_process_is_not_the_process() -> None:
    assert liveness(replace(ME, started_ticks=ME.started_ticks - 1)) is Liveness.GONE


def test_a_process_that_has_ended_is_gone() -> None:
    child = subprocess.Popen(["sleep", "100"])
    ticks = started_ticks(child.pid)
    assert ticks is not None
    identity = replace(ME, pid=child.pid, started_ticks=ticks)
    assert liveness(identity) is Liveness.ALIVE
    child.kill()
    child.wait()
    assert liveness(identity) is Liveness.GONE


def test_a_dead_process_that_waits_to_be_reaped_is_gone() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    ticks = started_ticks(child)
    assert ticks is not None
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert liveness(replace(ME, pid=child, started_ticks=ticks)) is Liveness.GONE
    os.waitpid(child, 0)


def test_nobody_here_knows_about_another_host() -> None:
    assert liveness(replace(ME, host="node17")) is Liveness.UNKNOWN
    assert liveness(replace(ME, host="node17", boot_id="other")) is Liveness.UNKNOWN


def test_a_host_that_started_anew_has_lost_its_processes() -> None:
    assert liveness(replace(ME, boot_id="an earlier one")) is Liveness.GONE


def test_a_host_called_localhost_proves_nothing_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost.localdomain")
    assert liveness(replace(ME, host="localhost.localdomain", boot_id="other")) is Liveness.UNKNOWN


def test_a_process_counted_in_another_container_is_not_taken_for_gone() -> None:
    assert liveness(replace(ME, pid=1, pid_namespace=4711)) is Liveness.UNKNOWN


def test_inside_a_container_a_number_from_nobody_knows_where_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    unrecorded = replace(ME, started_ticks=1, pid_namespace=None)
    monkeypatch.setattr(process_identity, "pid_namespace", lambda: 4711)
    assert liveness(unrecorded) is Liveness.UNKNOWN
    monkeypatch.setattr(process_identity, "pid_namespace", lambda: 0xEFFFFFFC)
    assert liveness(unrecorded) is Liveness.GONE


def test_a_name_full_of_brackets_and_spaces_does_not_shift_the_fields(tmp_path: Path) -> None:
    program = tmp_path / "a) S (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "100"])
    try:
        ticks, mine = started_ticks(child.pid), started_ticks(os.getpid())
        assert ticks is not None
        assert mine is not None
        assert ticks >= mine
    finally:
        child.kill()
        child.wait()


def test_a_number_that_no_process_has_has_no_start() -> None:
    assert started_ticks(2**22 + 1) is None
