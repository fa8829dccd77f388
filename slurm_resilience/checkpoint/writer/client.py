"""The rank's side of its writer."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import slurm_resilience
from slurm_resilience.checkpoint.writer.outcome import Gone, Outcome, Refused, Written
from slurm_resilience.checkpoint.writer.priority import stand_back
from slurm_resilience.checkpoint.writer.protocol import Garbled, HungUp, receive_answer, send_end, send_job

if TYPE_CHECKING:  # it comes with torch
    from slurm_resilience.checkpoint.snapshot.taken import Taken

_SHIELDED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
"""What a stopping job sends to all its processes. A writer leaves when its rank has, and its work is done."""

_LAST_WAIT_S = 5.0
_REAPED_S = 1.0


class WriterProcess:
    """A process of its own that makes snapshots durable, one at a time, and finishes the last one if this one dies."""

    def __init__(self, root: Path, program: Sequence[str]) -> None:
        """`root` is the run directory; `program` is what to run, the number of its socket's descriptor being its last
        argument."""
        self._root = root
        self._program = list(program)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._in_flight: Taken | None = None

    @property
    def pid(self) -> int:
        """0: there is none."""
        return 0 if self._process is None or self._connection is None else self._process.pid

    def start(self) -> None:
        """Have a writer; harmless if there is one. Raises OSError where none can be started.

        It has the lowest priority and is deaf to the signals that end a job.
        """
        if self._connection is not None:
            return
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with its, contextlib.ExitStack() as undone:
            undone.callback(mine.close)
            with _blocked(_SHIELDED):  # inherited, and kept through exec: there is no instant in which one gets through
                self._process = subprocess.Popen(
                    [*self._program, str(its.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what it prints is no part of the training's output
                    pass_fds=[its.fileno()],
                    env=_importable(os.environ),
                    start_new_session=True,  # launchers kill a rank's whole process group: this one has work to finish
                )
            undone.pop_all()
        stand_back(self._process.pid)
        self._connection = mine

    def submit(self, taken: Taken) -> None:
        """Have `taken` written, which may still be in the making. Returns at once.

        The arena belongs to the writer until `poll` or `wait` tell the outcome. ValueError while a job is in flight.
        """
        if self._connection is None:
            raise ValueError("there is no writer: start it first")
        if self._in_flight is not None:
            raise ValueError(f"{self._in_flight.job.file} is still being written")
        with contextlib.suppress(ConnectionError):  # it died: `poll` will say so
            send_job(
                self._connection,
                taken.job,
                arena=taken.arena.descriptor,
                arena_bytes=taken.arena.size_bytes,
                watermark=taken.watermark.descriptor,
            )
        self._in_flight = taken
        taken.lend()

    def poll(self) -> Outcome | None:
        """What became of the job, once; None while nobody knows, and when there is none.

        Gone is said without a job too. After it there is no writer until the next `start`.
        """
        return self._outcome(0.0)

    def wait(self, timeout_s: float | None) -> Outcome | None:
        """As `poll`, waiting so long for a job in flight; None: for as long as it takes."""
        return self._outcome(timeout_s if self._in_flight is not None else 0.0)

    def close(self) -> None:
        """Have the writer end once it is idle. Waits 5 s at most: a job in flight goes on without us."""
        if self._connection is None or self._process is None:
            return
        with contextlib.suppress(OSError):
            send_end(self._connection)
        try:
            self._process.wait(_LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            pass
        else:
            self._land()  # otherwise its arena is still read
        self._hang_up()

    def _outcome(self, timeout_s: float | None) -> Outcome | None:
        if self._connection is None or not _readable(self._connection, timeout_s):
            return None
        try:
            answer = receive_answer(self._connection)
        except (OSError, Garbled) as error:
            return self._gone(f"the checkpoint writer failed: {error}")
        match answer:
            case Written() | Refused():
                self._land()
                return answer
            case HungUp():
                return self._gone(None)

    def _gone(self, why: str | None) -> Gone | None:
        """None while it isn't dead: until then it may write, and the next one would meet it."""
        assert self._process is not None, "there was a connection"
        self._process.kill()  # most often it is dead already, and this does nothing
        try:
            code = self._process.wait(_REAPED_S)
        except subprocess.TimeoutExpired:  # held up by a file system that doesn't answer
            return None
        self._hang_up()
        self._land()
        return Gone(why or f"the checkpoint writer of {self._root} {_in_words(code)}")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _land(self) -> None:
        if self._in_flight is not None:
            self._in_flight.give_back()
            self._in_flight = None


def _importable(environment: Mapping[str, str]) -> dict[str, str]:
    """Our package is where it is for this process, which may have found it by its script's folder."""
    found_in = str(Path(slurm_resilience.__file__).parents[1])
    others = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": f"{found_in}{os.pathsep}{others}" if others else found_in}


def _readable(connection: socket.socket, timeout_s: float | None) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0.0) * 1000))


def _in_words(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


@contextlib.contextmanager
def _blocked(signals: Sequence[signal.Signals]) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
