"""A node's part of the round of connections: real ones, to where the others' echo listens."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.rounds.peers import is_loopback
from slurm_resilience.preflight.rounds.resolving import look_up

LOOK_UP_S = 4.0
CONNECT_S = 4.0
"""A first SYN that is lost is sent again after 1 s, and again after 3 s."""
ECHOES = 20
ECHO_S = 2.0
TRANSFER_BYTES = 256 * 1024
TRANSFER_S = 1.2
AGAIN_S = 0.1
"""A transfer that took longer is done once more, and one of which nothing came: it may have been a bad moment."""
MEASURING_S = 8.0
"""For all peers together."""
_KINDS = {
    errno.ECONNREFUSED: "refused",
    errno.ETIMEDOUT: "timed out",
    errno.EHOSTUNREACH: "no route",
    errno.ENETUNREACH: "no route",
    errno.EADDRNOTAVAIL: "no route",
}


@dataclass(frozen=True, slots=True)
class Way:
    peer: int
    by: str
    """`name` or `address`."""
    address: str
    port: int


def connect(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    peers: Sequence[Mapping[str, Any]] = assignment["peers"]
    tell(f"looking up {', '.join(peer['node'] for peer in peers[:8])}")
    found = look_up([peer["names"] for peer in peers], timeout_s=LOOK_UP_S)
    resolved = {name: answer["addresses"] for name, answer in found.items()}
    ways = [way for peer in peers for way in ways_to(peer, resolved, named_interface=context.interface is not None)]
    tell(f"connecting to {', '.join(f'{way.address}:{way.port}' for way in ways[:8])}")
    tried = try_all(ways, timeout_s=CONNECT_S)
    connections = [
        {"peer": way.peer, "by": way.by, "address": way.address, "port": way.port, **outcome}
        for way, outcome in zip(ways, tried, strict=True)
    ]
    speeds = []
    until = time.monotonic() + MEASURING_S
    for peer in peers:
        way = next((w for w, o in zip(ways, tried, strict=True) if w.peer == peer["task"] and o["kind"] == "ok"), None)
        if way is None or time.monotonic() > until:
            continue
        tell(f"measuring the way to {peer['node']} ({way.address}:{way.port})")
        speeds.append({"peer": way.peer, **measure(way.address, way.port)})
    return {"connections": connections, "speeds": speeds}


def ways_to(
    peer: Mapping[str, Any], resolved: Mapping[str, Sequence[str]], *, named_interface: bool = False
) -> list[Way]:
    """By the name that the ranks would meet by; by its address where that is another one and was asked for, or where
    no name leads there. That a name doesn't, is the round of names' business."""
    by_name = next((resolved[name] for name in peer["names"] if resolved.get(name)), ())
    leading = [a for a in by_name if "%" not in a and (peer["same_host"] or not is_loopback(a))]
    ways = [("name", leading[0])] if leading else []
    others = [address for address in peer["addresses"] if address not in leading]
    if others and (named_interface or not ways):
        ways.append(("address", others[0]))
    return [Way(int(peer["task"]), by, address, int(port)) for by, address in ways for port in peer["ports"]]


def try_all(ways: Sequence[Way], *, timeout_s: float) -> list[dict[str, Any]]:
    """All at once, none waiting for another: `kind` (`ok`, `refused`, `timed out`, …) and `took_s` of each."""
    begun = time.monotonic()
    outcomes: dict[int, dict[str, Any]] = {}
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        for number, way in enumerate(ways):
            link = opened.enter_context(_socket(way.address))
            link.setblocking(False)
            code = link.connect_ex((way.address, way.port))
            if code == errno.EINPROGRESS:
                selector.register(link, selectors.EVENT_WRITE, number)
            else:
                outcomes[number] = _outcome(code, begun)
        while len(outcomes) < len(ways) and (left := begun + timeout_s - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                assert isinstance(key.fileobj, socket.socket)
                outcomes[key.data] = _outcome(key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), begun)
                selector.unregister(key.fileobj)
    return [outcomes.get(number) or _outcome(errno.ETIMEDOUT, begun) for number in range(len(ways))]


def measure(address: str, port: int) -> dict[str, Any]:
    """Small echoes and one large one over a connection of its own; `trouble` says where it stopped."""
    measured: dict[str, Any] = {}
    try:
        with _socket(address) as link:
            link.settimeout(ECHO_S)
            link.connect((address, port))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            trips = [_echo(link) for _ in range(ECHOES)]
            measured |= {"round_trip_s": round(statistics.median(trips), 6), "round_trip_max_s": round(max(trips), 6)}
            seconds = transfer(link)
            if seconds is None or AGAIN_S < seconds < TRANSFER_S:
                again = transfer(link)
                seconds = min((took for took in (seconds, again) if took is not None), default=None)
    except OSError as error:
        return {**measured, "trouble": "silent" if "round_trip_s" not in measured else "stalled", "error": str(error)}
    return {**measured, "trouble": "stalled"} if seconds is None else {**measured, "transfer_s": round(seconds, 6)}


def transfer(link: socket.socket) -> float | None:
    """Seconds for TRANSFER_BYTES there and back; reckoned from what came where the time was up; None: nothing came."""
    begun = time.monotonic()
    deadline = begun + TRANSFER_S
    link.setblocking(False)
    sent = received = 0
    block = bytes(16384)
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while received < TRANSFER_BYTES and (left := deadline - time.monotonic()) > 0:
            for _, events in selector.select(left):
                if events & selectors.EVENT_READ:
                    data = link.recv(65536)
                    if not data:
                        raise ConnectionResetError("closed by the other side")
                    received += len(data)
                if events & selectors.EVENT_WRITE and sent < TRANSFER_BYTES:
                    sent += link.send(block[: TRANSFER_BYTES - sent])
                    if sent >= TRANSFER_BYTES:
                        selector.modify(link, selectors.EVENT_READ)
    took = time.monotonic() - begun
    return took * TRANSFER_BYTES / received if received else None


def _echo(link: socket.socket) -> float:
    word = b"slurm-resilience preflight echo\n"
    begun = time.monotonic()
    link.sendall(word)
    left = len(word)
    while left > 0:
        data = link.recv(left)
        if not data:
            raise ConnectionResetError("closed by the other side")
        left -= len(data)
    return time.monotonic() - begun


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)


def _outcome(code: int, begun: float) -> dict[str, Any]:
    took = round(time.monotonic() - begun, 5)
    if code == 0:
        return {"kind": "ok", "took_s": took}
    return {"kind": _KINDS.get(code, "failed"), "error": errno.errorcode.get(code, str(code)), "took_s": took}
