"""A node agent as a real process of this machine, without Slurm, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from slurm_resilience.agent.process_tree import MARKER, read_process, variables
from slurm_resilience.launch.plan import CommandKind, Plan, Rendezvous, StopTimes, write_plan
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, read_agent_record
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import StopPageReader
from slurm_resilience.signals.stop_request import StopRequest

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 240.0
"""For what happens within seconds on an idle machine."""
LONG = StopTimes(after_termination_s=300, after_warning_s=300, leave_s=1, peer_failed_s=5)


def wait_until(happened: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, f"{what} did not happen within {PATIENCE_S:g} s"
        time.sleep(0.02)


@contextlib.contextmanager
def going_first() -> Iterator[None]:
    """Whatever else this machine does: for what must follow at once. Only where we may, which is as root."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@dataclass
class AgentScene:
    """One run directory, one attempt, one agent."""

    folder: Path
    shm: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / "run")

    def script(self, text: str) -> tuple[str, ...]:
        """A Python program as a command."""
        path = self.folder / f"program-{len(list(self.folder.glob('program-*')))}.py"
        path.write_text(text)
        return (sys.executable, str(path))

    def plan(self, argv: tuple[str, ...], **changed: object) -> Path:
        values: dict[str, object] = {
            "run": str(self.run.path),
            "run_id": "r1",
            "attempt": 1,
            "kind": CommandKind.TASK,
            "argv": argv,
            "python": sys.executable,
            "nodes": 1,
            "nproc_per_node": 1,
            "rendezvous": None,
            "local_addr": None,
            "interface": None,
            "forward_signal": None,
            "end_s": None,
            "stop_before_end_s": 60.0,
            "times": LONG,
            "runtime_parent": str(self.shm),
            "supervisor_host": "elsewhere",
            "supervisor_boot_id": "",
            "supervisor_pid": 1,
            "supervisor_started_ticks": 0,
            "can_requeue": False,
        }
        path = self.run.plan(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plan(path, Plan(**(values | changed)))  # type: ignore[arg-type]
        return path

    def start(self, argv: tuple[str, ...], **changed: object) -> subprocess.Popen[bytes]:
        with (self.folder / "out").open("ab") as out, (self.folder / "err").open("ab") as err:
            return self.start_talking_to(out, err, argv, **changed)

    def start_talking_to(
        self, out: BinaryIO | int, err: BinaryIO | int, argv: tuple[str, ...], **changed: object
    ) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "SCENE": str(self.folder)}
        agent = subprocess.Popen(
            [sys.executable, "-m", "slurm_resilience.agent", str(self.plan(argv, **changed))],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=self.folder,
        )
        self.started.append(agent)
        return agent

    def said(self, name: str) -> str:
        """What a program of the tree has written to a file of the scene."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    @property
    def complaints(self) -> str:
        return self.said("err")

    def wait_for(self, name: str, text: str = "") -> None:
        path = self.folder / name
        wait_until(lambda: path.exists() and text in path.read_text(), f"{name!r} with {text!r}")

    def record(self) -> AgentRecord:
        record = read_agent_record(self.run.agent_record(1, 0))
        assert record is not None
        return record

    def end(self, agent: subprocess.Popen[bytes], outcome: Outcome, code: int) -> AgentRecord:
        """It ends like this, and leaves no process and no folder."""
        assert agent.wait(PATIENCE_S) == code, self.complaints
        record = self.record()
        assert record.outcome is outcome, record
        assert self.marked() == []
        assert list(self.shm.iterdir()) == []
        return record

    def marked(self) -> list[int]:
        """Every living process on this machine that any agent of this scene has started."""
        wanted = f"SCENE={self.folder}".encode()
        found = []
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            process = read_process(int(path.name))
            if process is None or process.state == "Z":
                continue
            environment = variables(process.pid)
            if wanted in environment and any(entry.startswith(MARKER.encode() + b"=") for entry in environment):
                found.append(process.pid)
        return found

    def stop_page(self) -> StopRequest | None:
        [folder] = self.shm.iterdir()
        with StopPageReader(folder) as page:
            return page.read()

    def clean_up(self) -> None:
        for agent in self.started:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        for pid in self.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[AgentScene]:
    shm = tmp_path / "shm"
    shm.mkdir()
    found = AgentScene(tmp_path, shm)
    yield found
    found.clean_up()


def rendezvous(port: int) -> Rendezvous:
    return Rendezvous("127.0.0.1", port, "r1.1")
