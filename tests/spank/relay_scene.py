"""Relays as real processes of this machine, with processes that stand for ranks, and a squeue of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.signals.runtime_folder import StopPageReader
from slurm_resilience.signals.stop_request import StopRequest

PATIENCE_S = 60.0
"""For what happens within a second on an idle machine."""
KILL_WAIT_S = 30
PROMISE_S = KILL_WAIT_S - 2
_RANK = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
print("ready", flush=True)
time.sleep(600)
"""


def wait_until(happened: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, f"{what} did not happen within {PATIENCE_S:g} s"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Dead, whether or not somebody has reaped it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] in b"ZXx"


@dataclass
class Relay:
    process: subprocess.Popen[str]
    errors: Path
    folder: Path
    """Its runtime folder; what it was told to be made in, where it made none."""

    @property
    def said(self) -> str:
        return self.errors.read_text()

    def tell(self, local_id: int, pid: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{local_id} {pid}\n")
        self.process.stdin.flush()

    def asked(self) -> StopRequest | None:
        with StopPageReader(self.folder) as page:
            return page.read()

    def wait_asked(self) -> StopRequest:
        wait_until(self.asked, "a stop request")
        request = self.asked()
        assert request is not None
        return request

    def end(self) -> int:
        """As the plugin ends it: its standard input is closed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


@dataclass
class RelayScene:
    home: Path
    program: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def shm(self) -> Path:
        folder = self.home / "shm"
        folder.mkdir(exist_ok=True)
        return folder

    def argv(self, *more: str, runtime: Path | None = None, life: str = "123-0", node_id: int = 0) -> list[str]:
        return [
            str(self.program),
            f"--runtime={runtime or self.shm}",
            f"--job={life}",
            "--step=0",
            f"--node-id={node_id}",
            "--local-tasks=2",
            f"--kill-wait={KILL_WAIT_S}",
            *more,
        ]

    def squeue(self, script: str) -> None:
        """What `squeue` does for relays that start now or ask again."""
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        unnamed = folder / "squeue.new"
        unnamed.write_text(f"#!/bin/sh\n{script}\n")
        unnamed.chmod(0o755)
        unnamed.replace(folder / "squeue")

    def start(
        self, *more: str, life: str = "123-0", node_id: int = 0, runtime: Path | None = None, **environment: str
    ) -> Relay:
        errors = self.home / f"relay-{len(self.started)}.err"
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SQUEUE_"))}
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                self.argv(*more, life=life, node_id=node_id, runtime=runtime),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**kept, "PATH": path, **environment},
            )
        self.started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().rstrip("\n")
        assert line, errors.read_text()
        process.stdout.close()
        return Relay(process, errors, Path(line))

    def rank(self) -> subprocess.Popen[str]:
        """A process that never hears the signals of a stop, as the plugin starts them."""
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", _RANK], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait(PATIENCE_S)
