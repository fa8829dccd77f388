"""The writer's life: a job at a time, until the rank says end or is gone and nothing is left to do."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from slurm_resilience.checkpoint.snapshot.watermark import Watermark
from slurm_resilience.checkpoint.writer.attachment import Attachment
from slurm_resilience.checkpoint.writer.execution import PAUSES_S, Finish, SnapshotLost, execute
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.outcome import Refused, Written
from slurm_resilience.checkpoint.writer.protocol import End, Garbled, HungUp, Job, receive_order, send_answer
from slurm_resilience.clock import Clock, SystemClock

_IDLE_LOOK_S = 1.0


def serve(
    descriptor: int,
    root: Path,
    *,
    finish: Finish,
    busy: Callable[[bool], None],
    refused: Callable[[WriteJob, str], None] = lambda _job, _why: None,
    clock: Clock | None = None,
    pauses_s: Sequence[float] = PAUSES_S,
) -> int:
    """Execute what comes over the socket `descriptor`; returns the exit code.

    A job whose snapshot is whole is written and finished whether or not the rank still lives. `finish` is called
    after every durable part; what it raises is reported as Refused. `refused` is called for a part that there will not
    be, with the reason; it must not raise. `busy(True)` and `busy(False)` stand around a
    job, for whoever must not kill it meanwhile.
    """
    with socket.socket(fileno=descriptor) as connection, contextlib.closing(Attachment()) as attachment:
        return _Service(connection, root, attachment, finish, refused, busy, clock or SystemClock(), pauses_s).run()


class _Service:
    def __init__(
        self,
        connection: socket.socket,
        root: Path,
        attachment: Attachment,
        finish: Finish,
        refused: Callable[[WriteJob, str], None],
        busy: Callable[[bool], None],
        clock: Clock,
        pauses_s: Sequence[float],
    ) -> None:
        self._connection = connection
        self._root = root
        self._attachment = attachment
        self._finish = finish
        self._refused = refused
        self._busy = busy
        self._clock = clock
        self._pauses_s = pauses_s
        self._parent = os.getppid()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN | select.POLLRDHUP)

    def run(self) -> int:
        while True:
            if not self._poll.poll(_IDLE_LOOK_S * 1000):
                if self._orphaned():
                    return 0
                continue
            try:
                order = receive_order(self._connection)
            except Garbled as garbled:
                sys.stderr.write(f"slurm-resilience: the checkpoint writer can't understand its rank: {garbled}\n")
                return 1
            except ConnectionError:  # it died with our answer unread
                return 0
            match order:
                case HungUp() | End():
                    return 0
                case Job():
                    try:
                        self._answer(self._execute(order))
                    except SnapshotLost:
                        which = f"{order.job.checkpoint}, rank {order.job.rank}"
                        sys.stderr.write(f"slurm-resilience: {which}: the rank died before its snapshot was whole\n")
                        return 0

    def _execute(self, order: Job) -> Written | Refused:
        self._busy(True)
        watermark = Watermark.attach(order.watermark)
        try:
            return execute(
                order.job,
                self._attachment.attach(order.arena, order.arena_bytes),
                watermark,
                self._root,
                finish=self._finish,
                refused=self._refused,
                rank_is_gone=self._rank_is_gone,
                clock=self._clock,
                pauses_s=self._pauses_s,
            )
        except (OSError, ValueError) as error:
            return Refused(getattr(error, "errno", None), f"the snapshot can't be reached: {error}")
        finally:
            watermark.close()
            self._busy(False)

    def _rank_is_gone(self) -> bool:
        hung_up = any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in self._poll.poll(0))
        return hung_up or self._orphaned()

    def _orphaned(self) -> bool:
        """The socket alone doesn't tell: processes that the rank forked may hold its end open."""
        return os.getppid() != self._parent

    def _answer(self, answer: Written | Refused) -> None:
        try:
            send_answer(self._connection, answer)
        except (BrokenPipeError, ConnectionError):
            return  # it is gone; what is written stands
