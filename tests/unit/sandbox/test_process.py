"""A process is taken for itself only: not a zombie, not a later one with its pid."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.errors import ResilienceError
from slurm_resilience.sandbox.process import (
    Process,
    environment_of,
    identify,
    kill_all,
    load_process,
    processes_with,
    save_process,
    with_descendants,
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """Waits for a word on stdin; carries a mark in its environment."""
    with subprocess.Popen(
        [sys.executable, "-c", "print('here', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"MARK": f"of-{os.getpid()}", "EMPTY": ""},
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running
        running.kill()


def wait_until_dead(child: subprocess.Popen[str]) -> None:
    """Until it is a zombie; it is not reaped."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def known(pid: int) -> Process:
    process = identify(pid)
    assert process is not None
    return process


def test_a_live_process_is_alive(child: subprocess.Popen[str]) -> None:
    assert known(child.pid).alive()


def test_a_zombie_is_dead(child: subprocess.Popen[str]) -> None:
    process = known(child.pid)
    child.kill()
    wait_until_dead(child)
    assert not process.alive()
    assert identify(child.pid) is None


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot": "another"}])
def test_a_later_process_with_the_same_pid_is_neither_alive_nor_killed(
    child: subprocess.Popen[str], change: dict[str, int | str]
) -> None:
    earlier = dataclasses.replace(known(child.pid), **change)  # type: ignore[arg-type]
    assert not earlier.alive()
    earlier.signal(signal.SIGKILL)
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.wait() == 0


def test_a_note_of_a_process_names_the_same_process(tmp_path: Path, child: subprocess.Popen[str]) -> None:
    save_process(tmp_path / "note", known(child.pid))
    assert load_process(tmp_path / "note") == known(child.pid)
    assert load_process(tmp_path / "other") is None


def test_the_environment_of_a_process_is_read(child: subprocess.Popen[str]) -> None:
    assert environment_of(child.pid) == {"MARK": f"of-{os.getpid()}", "EMPTY": ""}


def test_processes_are_found_by_their_mark_and_killed_without_ourselves(child: subprocess.Popen[str]) -> None:
    def find() -> list[Process]:
        return list(processes_with(lambda _, env: env.get("MARK") == f"of-{os.getpid()}"))

    assert find() == [known(child.pid)]
    kill_all(find, timeout_s=60)
    assert not find()
    assert os.getpid() not in {process.pid for process in processes_with(lambda _, env: True)}


def test_a_process_of_another_user_does_not_keep_the_others_alive(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary user's job has called sudo."""
    foreign, mine, kill = known(os.getppid()), known(child.pid), os.kill

    def forbid(pid: int, number: int) -> None:
        if pid == foreign.pid:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr(os, "kill", forbid)
    with pytest.raises(ResilienceError, match=f"do not die of SIGKILL: {foreign.pid}$"):
        kill_all(lambda: [process for process in (foreign, mine) if process.alive()], timeout_s=1)
    wait_until_dead(child)


def test_a_child_with_an_empty_environment_is_found_by_its_parent() -> None:
    with subprocess.Popen(
        ["sh", "-c", "env -i sh -c 'echo $$; read x'; :"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        inner = int(shell.stdout.readline())
        assert {process.pid for process in with_descendants([known(shell.pid)])} >= {shell.pid, inner}
        for process in with_descendants([known(shell.pid)]):
            process.signal(signal.SIGKILL)
