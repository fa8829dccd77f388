"""A supervisor in local mode as a real process: a person's word holds, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.supervise import PAUSE_BEFORE_RESTART_S
from tests.faults.agent_scene import PATIENCE_S, REPOSITORY, wait_until

FAILS_THEN_WAITS = 'echo x >> "$0/started"; [ "$(wc -l < "$0/started")" = 1 ] && exit 3; sleep 600'
DOES_NOT_LISTEN = "trap '' TERM INT; touch \"$0/started\"; while :; do sleep 0.2; done"


class Here:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunDirectory(folder / "run")
        self.out = folder / "out"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, script: str) -> None:
        command = [sys.executable, "-m", "slurm_resilience.cli.srun_resilient", "--mode=local"]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, f"--run-dir={self.run.path}", "bash", "-c", script, str(self.folder)],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def wait_said(self, text: str) -> None:
        wait_until(lambda: text in self.out.read_text(), f"{text!r} in {self.out.read_text()!r}")

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    @property
    def causes(self) -> list[Cause | None]:
        attempts = Chain.of(Journal(self.run).read()).attempts
        return [attempt.ended.cause if attempt.ended is not None else None for attempt in attempts]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    found = Here(tmp_path)
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.kill()
        found.process.wait()


def test_an_interrupt_between_two_attempts_is_not_forgotten(here: Here) -> None:
    here.start(FAILS_THEN_WAITS)
    here.wait_said("starting again in place")
    here.send(signal.SIGINT)
    assert here.end() == 76, here.out.read_text()
    assert here.causes == [Cause.CRASHED, Cause.OPERATOR_STOP]


def test_a_stop_file_that_is_touched_between_two_attempts_is_not_removed(here: Here) -> None:
    assert PAUSE_BEFORE_RESTART_S >= 1
    here.start(FAILS_THEN_WAITS)
    here.wait_said("starting again in place")
    here.run.stop_file.touch()
    assert here.end() == 76, here.out.read_text()
    assert here.causes == [Cause.CRASHED, Cause.OPERATOR_STOP]


def test_a_second_interrupt_ends_a_program_that_does_not_listen(here: Here) -> None:
    here.start(DOES_NOT_LISTEN)
    wait_until((here.folder / "started").exists, "the program's start")
    here.send(signal.SIGINT)
    here.wait_said("asking the ranks to stop")
    here.send(signal.SIGINT)
    assert here.end() == 76, here.out.read_text()
    assert here.causes == [Cause.OPERATOR_STOP]


def test_a_lease_that_can_not_be_given_back_changes_nothing_of_the_end(here: Here) -> None:
    here.start('rm "$0/run/lease.json" && mkdir "$0/run/lease.json"')
    assert here.end() == 0, here.out.read_text()
    assert here.causes == [Cause.FINISHED]
