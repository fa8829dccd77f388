"""A run whose supervisor, node agent and launcher are played by the test."""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slurm_resilience.launch.rendezvous import can_be_bound, candidate_ports, ephemeral_ports
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, CheckpointCommitted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import RankPage, StopPageWriter, rank_pages
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from tests.unit.training.relay_folder import make_relay_folder

REPOSITORY = Path(__file__).parents[2]
TRAINING = Path(__file__).with_name("linear_training.py")
PATIENCE_S = 200.0
BLOCKED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def free_port() -> int:
    """Outside the range of clients: a port that the kernel offers may be a client's before torch binds it."""
    ports = candidate_ports(secrets.token_hex(8), ephemeral_ports())
    return next(port for port in ports if can_be_bound(port))


@dataclass
class Ranks:
    """The processes of one attempt, each writing to a file."""

    processes: list[subprocess.Popen[bytes]]
    outputs: list[Path]
    runtime: Path
    page: StopPageWriter
    codes: list[int] = field(default_factory=list)

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.outputs)

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while text not in self.said():
            assert time.monotonic() < until, f"never said {text!r}:\n{self.said()}"
            assert any(process.poll() is None for process in self.processes), f"ended before {text!r}:\n{self.said()}"
            time.sleep(0.01)

    def ask_to_stop(self, reason: StopReason = StopReason.TERMINATION, *, seconds: float = 60.0) -> None:
        now_s = time.monotonic()
        deadline_s = now_s + seconds if math.isfinite(seconds) else math.inf
        self.page.write(StopRequest(reason, "the test says so", now_s, deadline_s))

    def wait(self) -> list[int]:
        until = time.monotonic() + PATIENCE_S
        try:
            self.codes = [process.wait(timeout=max(0.1, until - time.monotonic())) for process in self.processes]
        except subprocess.TimeoutExpired:
            pytest.fail(f"the ranks don't end:\n{self.said()}")
        return self.codes

    def pages(self) -> list[RankPage]:
        return rank_pages(self.runtime)

    def weights(self) -> set[str]:
        return set(re.findall(r"weights (\w+ \d+)", self.said()))

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.page.close()


@dataclass
class Run:
    """One run under test, attempt after attempt."""

    directory: Path
    attempts: list[Ranks] = field(default_factory=list)

    @property
    def folder(self) -> RunDirectory:
        return RunDirectory(self.directory)

    @property
    def journal(self) -> Journal:
        return Journal(self.folder)

    def chain(self) -> Chain:
        return Chain.of(self.journal.read())

    def newest_attempt(self) -> Attempt:
        attempt = self.chain().newest_attempt
        assert attempt is not None
        return attempt

    def newest_checkpoint(self) -> CheckpointCommitted:
        return self.chain().loadable()[0].committed

    @property
    def go_on(self) -> Path:
        """What ranks started with `--hold-at STEP GO_ON` wait for, in the middle of that step."""
        return self.directory.with_name("go-on")

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < until, f"{what} did not happen"
            time.sleep(0.05)

    def wait_until_saved(self, step: int) -> None:
        """Writers finish a checkpoint beside their ranks, and even if those are dead."""
        self.wait_until(
            lambda: any(each.committed.step == step for each in self.chain().loadable()), f"a checkpoint of step {step}"
        )

    def begin(self) -> int:
        """What the supervisor does before it starts anything."""
        self.journal.create("test")
        number = len(self.chain().attempts) + 1
        self.journal.append(AttemptStarted(number, "local", ("python",), "host"))
        return number

    def start(
        self, *options: str, world_size: int = 2, script: Path = TRAINING, stop_first: bool = False, **more: str
    ) -> Ranks:
        """The ranks of the next attempt, with signals blocked, as a node agent starts them."""
        number = self.begin()
        runtime = self.directory.with_name(f"runtime-{number}")
        runtime.mkdir()
        page = StopPageWriter(runtime)
        page.open()
        ranks = Ranks([], [], runtime, page)
        self.attempts.append(ranks)
        if stop_first:
            ranks.ask_to_stop()
        given = {
            "SLURM_RESILIENCE_RUN": str(self.directory),
            "SLURM_RESILIENCE_ATTEMPT": str(number),
            "SLURM_RESILIENCE_RUNTIME": str(runtime),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            **more,
        }
        for rank in range(world_size):
            environment = clean_environment() | given | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            command = [sys.executable, str(script), *options]
            self.spawn(ranks, command, environment, block=True)
        return ranks

    def spawn(self, ranks: Ranks, command: list[str], environment: dict[str, str], *, block: bool) -> None:
        output = ranks.runtime / f"output-{len(ranks.outputs)}"
        ranks.outputs.append(output)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED if block else ())
        try:
            with output.open("wb") as file:
                process = subprocess.Popen(
                    command, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ranks.processes.append(process)

    def start_by_plugin(self, *options: str, tasks: int = 1, **more: str) -> Ranks:
        """As plain tasks of a step with the plugin's relay, whose part the test plays: signals blocked, pages there."""
        relay = self.directory.with_name(f"relay-{len(self.attempts)}")
        make_relay_folder(relay, tasks=tasks)
        ranks = Ranks([], [], relay, StopPageWriter(relay))
        ranks.page.open()
        self.attempts.append(ranks)
        given = {
            "SLURM_RESILIENCE_RELAY": str(relay),
            "SLURM_RESILIENCE_END_FILE": str(relay / "end"),
            "SLURM_RESILIENCE_RUN": str(self.directory),
            "SLURM_STEP_NUM_TASKS": str(tasks),
            "SLURM_STEP_TASKS_PER_NODE": str(tasks),
            "WORLD_SIZE": str(tasks),  # as such a program gives them to torch
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            **more,
        }
        for task in range(tasks):
            of_task = {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task), "RANK": str(task)}
            command = [sys.executable, str(TRAINING), *options]
            self.spawn(ranks, command, clean_environment() | given | of_task, block=True)
        return ranks

    def start_bare(self, *options: str) -> Ranks:
        """By torchrun alone."""
        runtime = self.directory.with_name(f"bare-{len(self.attempts)}")
        runtime.mkdir()
        ranks = Ranks([], [], runtime, StopPageWriter(runtime))
        self.attempts.append(ranks)
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
        command = [sys.executable, *launcher, str(TRAINING), *options]
        self.spawn(ranks, [*command, f"--run-dir={self.directory}"], clean_environment(), block=False)
        return ranks


def clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "TORCHELASTIC"))}
    return kept | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
