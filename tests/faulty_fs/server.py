"""A connection to the kernel: requests are read by a few threads, meet the faults, and are answered."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from dataclasses import dataclass, field

from tests.faulty_fs import wire
from tests.faulty_fs.faults import Fault, Faults
from tests.faulty_fs.passthrough import Passthrough, Request

THREADS = 8
"""So many calls may hang at once without keeping the others waiting."""

_FAULTY = {
    wire.Op.LOOKUP: "lookup",
    wire.Op.OPEN: "open",
    wire.Op.CREATE: "open",
    wire.Op.OPENDIR: "list",
    wire.Op.READ: "read",
    wire.Op.WRITE: "write",
    wire.Op.FALLOCATE: "preallocate",
    wire.Op.FLUSH: "flush",
    wire.Op.FSYNC: "fsync",
    wire.Op.FSYNCDIR: "fsyncdir",
    wire.Op.RENAME: "rename",
    wire.Op.RENAME2: "rename",
    wire.Op.LINK: "link",
    wire.Op.UNLINK: "unlink",
    wire.Op.MKDIR: "mkdir",
    wire.Op.RMDIR: "rmdir",
    wire.Op.SETLK: "lock",
    wire.Op.SETLKW: "lock",
}
_NAMED_IN_BODY = {
    wire.Op.LOOKUP: 0,
    wire.Op.CREATE: wire.CREATE.size,
    wire.Op.MKDIR: wire.MKDIR.size,
    wire.Op.UNLINK: 0,
    wire.Op.RMDIR: 0,
    wire.Op.RENAME: wire.RENAME.size,
    wire.Op.RENAME2: wire.RENAME2.size,
    wire.Op.LINK: wire.LINK.size,
}
_OF_A_HANDLE = (wire.Op.READ, wire.Op.WRITE)
_UNANSWERED = (wire.Op.FORGET, wire.Op.BATCH_FORGET, wire.Op.INTERRUPT)


@dataclass(slots=True)
class Guilt:
    """The faults that all views share."""

    faults: Faults = field(default_factory=Faults)
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)
    """Set while nobody is to hang."""


@dataclass(slots=True)
class Connection:
    device: int
    files: Passthrough
    guilt: Guilt
    can: wire.Can
    _interrupted: dict[int, threading.Event] = field(default_factory=dict)

    def serve(self) -> None:
        """Returns at once; the threads end when the file system is unmounted."""
        self.files.nodes.open_root()
        for _ in range(THREADS):
            threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        buffer = bytearray(wire.REQUEST_BYTES)
        while True:
            try:
                size = os.readv(self.device, [buffer])
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue  # the request was taken back while we read it
                return  # unmounted
            _length, op, unique, node, *_rest = wire.IN_HEADER.unpack_from(buffer)
            body = memoryview(buffer)[wire.IN_HEADER.size : size]
            try:
                request = Request(wire.Op(op), unique, node, body)
            except ValueError:
                self._reply(unique, -errno.ENOSYS)
                continue
            self._deal_with(request)

    def _deal_with(self, request: Request) -> None:
        if request.op in _UNANSWERED:
            self._take_note(request)
            return
        if request.op is wire.Op.INIT:
            self._reply(request.unique, 0, self._greeting(request))
            return
        if request.op is wire.Op.DESTROY:
            self._reply(request.unique, 0)
            return
        interrupted = self._interrupted.setdefault(request.unique, threading.Event())
        try:
            answer = self._answer(request, interrupted)
        except OSError as error:
            self._reply(request.unique, -(error.errno or errno.EIO))
        except KeyError:
            self._reply(request.unique, -errno.ESTALE)
        else:
            self._reply(request.unique, 0, answer)
        finally:
            self._interrupted.pop(request.unique, None)

    def _answer(self, request: Request, interrupted: threading.Event) -> bytes:
        short_bytes = None
        for fault in self._met(request):
            self._suffer(fault, interrupted)
            if fault.errno is not None:
                raise OSError(fault.errno, os.strerror(fault.errno))
            short_bytes = fault.short_bytes if fault.short_bytes is not None else short_bytes
        if request.op is wire.Op.SETLKW:
            self._wait_for_the_lock(request, interrupted)
        return self.files.answer(request, short_bytes=short_bytes)

    def _wait_for_the_lock(self, request: Request, interrupted: threading.Event) -> None:
        while not interrupted.wait(0.01):
            with contextlib.suppress(BlockingIOError):
                self.files.answer(request, short_bytes=None)
                return

    def _suffer(self, fault: Fault, interrupted: threading.Event) -> None:
        if fault.delay_s:
            time.sleep(fault.delay_s)
        while fault.hang and not self.guilt.released.is_set():
            if interrupted.wait(0.02):
                raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))

    def _met(self, request: Request) -> list[Fault]:
        op = request.op
        operation = _FAULTY.get(op)
        if op is wire.Op.SETATTR and wire.Set(wire.SETATTR.unpack_from(request.body)[0]) & wire.Set.SIZE:
            operation = "truncate"
        if operation is None:
            return []
        path = self.files.nodes.name(request.node)
        if op in _NAMED_IN_BODY:
            # Of a rename and a link both names count.
            path += "/" + wire.text_of(bytes(request.body[_NAMED_IN_BODY[op] :]).replace(b"\0", b" "))
        direct = False
        if op in _OF_A_HANDLE:
            direct = self.files.nodes.handle(wire.READ.unpack_from(request.body)[0]).direct
        elif operation == "open":
            direct = bool(wire.OPEN.unpack_from(request.body)[0] & os.O_DIRECT)
        with self.guilt.lock:
            return self.guilt.faults.meet(operation, path, direct=direct)

    def _take_note(self, request: Request) -> None:
        if request.op is wire.Op.FORGET:
            self.files.nodes.forget(request.node, *wire.FORGET.unpack_from(request.body))
        elif request.op is wire.Op.BATCH_FORGET:
            count, _ = wire.FORGET_MANY.unpack_from(request.body)
            for index in range(count):
                at = wire.FORGET_MANY.size + index * wire.FORGET_ONE.size
                self.files.nodes.forget(*wire.FORGET_ONE.unpack_from(request.body, at))
        else:
            waiting = self._interrupted.get(wire.INTERRUPT.unpack_from(request.body)[0])
            if waiting is not None:
                waiting.set()

    def _greeting(self, request: Request) -> bytes:
        major, _minor, readahead_bytes, offered = wire.INIT_IN.unpack_from(request.body)
        pages = wire.MAX_WRITE_BYTES // 4096
        agreed = int(self.can) & offered
        return wire.INIT_OUT.pack(major, 31, readahead_bytes, agreed, 16, 12, wire.MAX_WRITE_BYTES, 1, pages, 0, 0)

    def _reply(self, unique: int, error: int, answer: bytes = b"") -> None:
        header = wire.OUT_HEADER.pack(wire.OUT_HEADER.size + len(answer), error, unique)
        try:
            os.writev(self.device, [header, answer])
        except OSError:
            return  # nobody waits for it any more
