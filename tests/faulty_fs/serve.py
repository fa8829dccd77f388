"""The process of a faulty disk: python -m tests.faulty_fs.serve CONTROL. Ends, and unmounts, when CONTROL hangs up.

CONTROL is the number of a socket that it inherits: one JSON object a line, each answered by one.
"""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faulty_fs import wire
from tests.faulty_fs.faults import Fault
from tests.faulty_fs.locks import SharedLocks
from tests.faulty_fs.nodes import Nodes
from tests.faulty_fs.passthrough import Passthrough
from tests.faulty_fs.server import Connection, Guilt

ALWAYS = (
    wire.Can.ASYNC_READ | wire.Can.ATOMIC_O_TRUNC | wire.Can.BIG_WRITES | wire.Can.PARALLEL_DIROPS | wire.Can.MAX_PAGES
)


def mount(point: Path) -> int:
    """Mount a FUSE file system and return its device: fusermount3 hands it over, and works for an ordinary user too."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        subprocess.run(
            ["fusermount3", "-o", "nosuid,nodev,default_permissions,fsname=faulty,subtype=faulty", "--", str(point)],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            check=True,
        )
        _data, extra, _flags, _address = ours.recvmsg(1, socket.CMSG_SPACE(4))
    descriptors = array.array("i")
    descriptors.frombytes(extra[0][2][:4])
    return descriptors[0]


def unmount(point: Path) -> None:
    """Lazily: whoever still has a file open there keeps nobody waiting."""
    subprocess.run(["fusermount3", "-u", "-q", "-z", "--", str(point)], check=False)


class Server:
    def __init__(self) -> None:
        self._guilt = Guilt()
        self._guilt.released.set()
        self._locks = SharedLocks()
        self.mounted: list[Path] = []

    def obey(self, order: dict[str, Any]) -> Any:
        match order.pop("order"):
            case "mount":
                return self._mount(Path(order["folder"]), Path(order["point"]), order)
            case "fail":
                with self._guilt.lock:
                    self._guilt.released.clear()
                    return self._guilt.faults.add(Fault(**order))
            case "fired":
                with self._guilt.lock:
                    return self._guilt.faults.fired[order["number"]]
            case "seen":
                with self._guilt.lock:
                    return self._guilt.faults.seen[order["number"]]
            case "heal":
                with self._guilt.lock:
                    self._guilt.faults.clear()
                    self._guilt.released.set()
                return None
        raise ValueError("no such order")

    def _mount(self, folder: Path, point: Path, how: dict[str, Any]) -> None:
        can = ALWAYS
        if how["shared_locks"]:
            can |= wire.Can.FLOCK_LOCKS
        if how["writeback"]:
            can |= wire.Can.WRITEBACK_CACHE
        device = mount(point)
        self.mounted.append(point)
        files = Passthrough(Nodes(folder), self._locks, len(self.mounted), how["cache_s"], how["writeback"])
        Connection(device, files, self._guilt, can).serve()


def main(descriptor: int) -> int:
    os.umask(0)  # the kernel has applied the caller's
    server = Server()
    with socket.socket(fileno=descriptor) as control, control.makefile("rw") as lines:
        try:
            for line in lines:
                lines.write(json.dumps(server.obey(json.loads(line))) + "\n")
                lines.flush()
        finally:
            for point in server.mounted:
                unmount(point)
    return 0


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    os._exit(code)  # threads that hang are let go with their requests
