"""What a rank and its writer say to each other: short JSON messages, each behind its length, on a pair of sockets.

    rank → writer   {"say": "job", "bytes": 9120, "arena_bytes": 2147483648}, with three descriptors:
                        the job's text, the arena, the watermark
                    {"say": "end"}
    writer → rank   {"say": "written", "receipt": {…}, "seconds": 0.52}
                    {"say": "refused", "errno": 28, "why": "…"}

Messages are far shorter than a socket's buffer, so sending one never waits for the other side. A job's text may be
long (24 bytes and more a tensor): it travels as memory.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.outcome import Refused, Written

_LENGTH = struct.Struct("!I")
_LONGEST_BYTES = 16384
_LONGEST_WHY = 2000
_DESCRIPTORS = 3


class Garbled(Exception):
    """What came is not a message of this protocol."""


@dataclass(frozen=True, slots=True)
class Job:
    """The descriptors are the receiver's to close."""

    job: WriteJob
    arena: int
    arena_bytes: int
    watermark: int


@dataclass(frozen=True, slots=True)
class End:
    """Leave, now that nothing is to be done."""


@dataclass(frozen=True, slots=True)
class HungUp:
    """Nothing will come any more: the other side is gone."""


Order = Union[Job, End, HungUp]
Answer = Union[Written, Refused, HungUp]


def send_job(connection: socket.socket, job: WriteJob, *, arena: int, arena_bytes: int, watermark: int) -> None:
    text = job.to_json()
    with contextlib.ExitStack() as closing:
        memory = os.memfd_create("slurm-resilience-job", os.MFD_CLOEXEC)
        closing.callback(os.close, memory)
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(text)
        message = {"say": "job", "bytes": len(text), "arena_bytes": arena_bytes}
        _send(connection, message, [memory, arena, watermark])


def send_end(connection: socket.socket) -> None:
    _send(connection, {"say": "end"}, [])


def send_answer(connection: socket.socket, answer: Written | Refused) -> None:
    match answer:
        case Written(receipt, seconds):
            fields = {"rank": receipt.rank, "file": receipt.file, "bytes": receipt.bytes, "checksum": receipt.checksum}
            _send(connection, {"say": "written", "receipt": fields, "seconds": seconds}, [])
        case Refused(number, why):
            _send(connection, {"say": "refused", "errno": number, "why": why[:_LONGEST_WHY]}, [])


def receive_order(connection: socket.socket) -> Order:
    """Waits for it. Raises Garbled and OSError."""
    message, descriptors = _receive(connection)
    try:
        match message:
            case None:
                return HungUp()
            case {"say": "end"}:
                return End()
            case {"say": "job", "bytes": int(length), "arena_bytes": int(arena_bytes)} if len(descriptors) == 3:
                text, arena, watermark = descriptors
                job = WriteJob.from_json(os.pread(text, length, 0))
                os.close(text)
                descriptors = []
                return Job(job, arena, arena_bytes, watermark)
            case _:
                raise Garbled(f"no order: {str(message)[:200]}")
    except ValueError as error:
        raise Garbled(str(error)) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def receive_answer(connection: socket.socket) -> Answer:
    """Waits for it. Raises Garbled and OSError."""
    message, descriptors = _receive(connection)
    for descriptor in descriptors:
        os.close(descriptor)
    match message:
        case None:
            return HungUp()
        case {
            "say": "written",
            "receipt": {"rank": int(rank), "file": str(file), "bytes": int(size), "checksum": str(checksum)},
            "seconds": float(seconds),
        }:
            return Written(PartReceipt(rank=rank, file=file, bytes=size, checksum=checksum), seconds)
        case {"say": "refused", "errno": int() | None as number, "why": str(why)}:
            return Refused(number, why)
        case _:
            raise Garbled(f"no answer: {str(message)[:200]}")


def _send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int]) -> None:
    body = json.dumps(message).encode("ascii")
    if len(body) > _LONGEST_BYTES:
        raise ValueError(f"a message of {len(body)} bytes is too long")
    data = _LENGTH.pack(len(body)) + body
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = connection.sendmsg([data], rights)
    connection.sendall(data[sent:])


def _receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """None: the other side is gone, perhaps in the middle of a message."""
    room = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
    first, ancillary, _, _ = connection.recvmsg(_LENGTH.size, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    try:
        return (_message(connection, first) if first else None), list(descriptors)
    except BaseException:
        _close_all(descriptors)
        raise


def _message(connection: socket.socket, first: bytes) -> dict[str, Any] | None:
    length = first + _exactly(connection, _LENGTH.size - len(first))
    if len(length) < _LENGTH.size:
        return None
    (body_bytes,) = _LENGTH.unpack(length)
    if body_bytes > _LONGEST_BYTES:
        raise Garbled(f"a message of {body_bytes} bytes")
    body = _exactly(connection, body_bytes)
    if len(body) < body_bytes:
        return None
    try:
        message = json.loads(body)
    except ValueError as error:
        raise Garbled(f"no message: {error}") from error
    if not isinstance(message, dict):
        raise Garbled(f"no message: {message}")
    return message


def _close_all(descriptors: array.array[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer where the other side is gone."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data
