"""What answers the other nodes: a small process that sends back whatever comes, on two ports, while we live."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from slurm_resilience.launch.rendezvous import candidate_ports, ephemeral_ports
from slurm_resilience.parent_death import die_with_parent

_MOST_CALLERS = 1024
_MOST_WAITING_BYTES = 1 << 20
"""Of one caller who sends and doesn't read: nothing more is read from it then."""
_READ_BYTES = 1 << 16


def serve(key: str) -> tuple[int, ...]:
    """Start it. Its ports: one in the range of the rendezvous where one is free, and one that the kernel has chosen.

    It ends when this process does. Only from a process with one thread. Raises OSError.
    """
    listeners = [listener for listener in (_in_range(key), listen(0)) if listener is not None]
    ports = tuple(int(listener.getsockname()[1]) for listener in listeners)
    parent = os.getpid()
    if os.fork() == 0:
        try:
            die_with_parent(parent)
            _keep_only({listener.fileno() for listener in listeners})
            for standard in (0, 1, 2):  # the channel is the node's alone
                os.dup2(os.open(os.devnull, os.O_RDWR), standard)
            _Server(listeners).run()
        finally:
            os._exit(1)
    for listener in listeners:
        listener.close()
    return ports


def _keep_only(descriptors: set[int]) -> None:
    """Of the node's own, the channel among them, nothing may be held open from here."""
    for descriptor in range(3, max(256, *descriptors)):
        if descriptor not in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _in_range(key: str) -> socket.socket | None:
    for port in candidate_ports(key, ephemeral_ports()):
        with contextlib.suppress(OSError):
            return listen(port)
    return None


def listen(port: int) -> socket.socket:
    """On all addresses, of both families where there are two. Raises OSError."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(256)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


@dataclass(slots=True)
class _Caller:
    connection: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    gone: bool = False


class _Server:
    def __init__(self, listeners: Iterable[socket.socket]) -> None:
        self._selector = selectors.DefaultSelector()
        self._callers = 0
        for listener in listeners:
            self._selector.register(listener, selectors.EVENT_READ, None)

    def run(self) -> None:
        while True:
            for key, mask in self._selector.select():
                if isinstance(key.data, _Caller):
                    with contextlib.suppress(BlockingIOError):
                        self._answer(key.data, mask)
                elif isinstance(key.fileobj, socket.socket):
                    self._accept(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if self._callers >= _MOST_CALLERS:
            connection.close()
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._callers += 1
        self._selector.register(connection, selectors.EVENT_READ, _Caller(connection))

    def _answer(self, caller: _Caller, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ:
                block = caller.connection.recv(_READ_BYTES)
                caller.gone = not block
                caller.waiting += block
            if caller.waiting:
                del caller.waiting[: caller.connection.send(caller.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up(caller)
            return
        if caller.gone and not caller.waiting:
            self._hang_up(caller)
            return
        reads = not caller.gone and len(caller.waiting) < _MOST_WAITING_BYTES
        wanted = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if caller.waiting else 0)
        self._selector.modify(caller.connection, wanted, caller)

    def _hang_up(self, caller: _Caller) -> None:
        self._selector.unregister(caller.connection)
        caller.connection.close()
        self._callers -= 1
