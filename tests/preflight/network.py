"""A small network of network namespaces: nodes at one switch, each with an address, a firewall and a line of its own.

::

    with Network(["n1", "n2", "n3"]) as network:
        network.drop("n2", ports="15000:31999")     # packets to these ports of n2 vanish
        network.slow("n3", "1mbit")                 # n3's line, in both directions

Only for root. `world` is what a Python process needs to live in it: see `sitecustomize`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

_NUMBERS = itertools.count(1)

SITECUSTOMIZE = """
import ctypes, json, os, sys, time

node = os.environ.get("SLURMD_NODENAME", "")
world = json.loads(open(os.environ["PREFLIGHT_WORLD"]).read()).get(node) if "PREFLIGHT_WORLD" in os.environ else None
words = " ".join(sys.orig_argv)
if world and "slurm_resilience.preflight.node" in words:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def mount(source, target, kind, flags, data=""):
        must(libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()))

    RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 4096, 16384, 1 << 18
    if world.get("namespace"):
        with open(world["namespace"]) as there:
            must(libc.setns(there.fileno(), 0x40000000))
        must(libc.unshare(0x00020000 | 0x04000000))  # mounts, host name
        mount("none", "/", "", REC | PRIVATE)
        mount("none", "/sys", "sysfs", 0)  # that of its network
    if world.get("hosts"):
        mount(world["hosts"], "/etc/hosts", "", BIND)
    if world.get("host"):
        must(libc.sethostname(world["host"].encode(), len(world["host"])))
    for kind, source, target in world.get("mounts", ()):
        if kind == "tmpfs":
            mount("none", target, "tmpfs", 0, source)
        else:
            mount(source, target, "", BIND)
            if kind == "read-only":
                mount("none", target, "", BIND | REMOUNT | RDONLY)
    if world.get("deaf"):
        import socket

        def deaf(name, *rest, **named):
            raise socket.gaierror(-2, "Name or service not known")

        socket.getaddrinfo = deaf
    if world.get("ahead_s"):
        real = time.time
        time.time = lambda: real() + world["ahead_s"]
if world and world.get("torch") and "slurm-resilience-versions" in words:
    import builtins

    plain = builtins.__import__

    def other(name, *rest, **named):
        module = plain(name, *rest, **named)
        if name == "torch":
            module.__version__ = world["torch"]
        return module

    builtins.__import__ = other
"""


def why_impossible() -> str:
    """Empty where such networks can be made."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    missing = [name for name in ("ip", "iptables", "tc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing: scripts/install-packages test"
    name = f"srp{os.getpid()}probe"
    try:
        _run("ip", "netns", "add", name)
        try:
            _run("ip", "-n", name, "link", "add", "br0", "type", "bridge")
            _run("ip", "netns", "exec", name, "iptables", "-L")
        finally:
            _run("ip", "netns", "del", name)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"no network namespaces here: {error}"
    return ""


@dataclass
class Network:
    nodes: Sequence[str]
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By node, those whose names its /etc/hosts does not have."""
    _prefix: str = field(default_factory=lambda: f"srp{os.getpid()}x{next(_NUMBERS)}")

    def __enter__(self) -> Network:  # noqa: PYI034 typing.Self is not in Python 3.10
        try:
            self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in (*map(self.namespace, self.nodes), self._switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=100)

    @property
    def _switch(self) -> str:
        return f"{self._prefix}switch"

    def namespace(self, node: str) -> str:
        return f"{self._prefix}n{self.nodes.index(node)}"

    def address(self, node: str) -> str:
        return f"10.231.7.{self.nodes.index(node) + 1}"

    def host(self, node: str) -> str:
        return f"host{self.nodes.index(node) + 1}"

    def drop(self, node: str, *, ports: str) -> None:
        """Packets to these ports (`15000:31999`) of this node vanish."""
        _run(*self._inside(node), "iptables", "-A", "INPUT", "-i", "v0", "-p", "tcp", "--dport", ports, "-j", "DROP")

    def slow(self, node: str, rate: str) -> None:
        words = ["root", "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"]
        _run("tc", "-n", self.namespace(node), "qdisc", "add", "dev", "v0", *words)
        _run("tc", "-n", self._switch, "qdisc", "add", "dev", f"p{self.nodes.index(node)}", *words)

    def narrow(self, node: str, mtu: int) -> None:
        """The switch's port for this node takes smaller packets than anybody thinks; larger ones vanish there."""
        for each in self.nodes:  # or the kernel hands over many packets as a large one, which passes
            _run("ip", "-n", self.namespace(each), "link", "set", "v0", "gso_max_segs", "1")
        _run("ip", "-n", self._switch, "link", "set", f"p{self.nodes.index(node)}", "mtu", str(mtu))

    def world(self, folder: Path) -> dict[str, dict[str, Any]]:
        """By node, where it lives; its /etc/hosts lies in `folder`."""
        return {
            node: {
                "namespace": f"/run/netns/{self.namespace(node)}",
                "hosts": str(self.write_hosts(folder, node)),
                "host": self.host(node),
            }
            for node in self.nodes
        }

    def write_hosts(self, folder: Path, node: str) -> Path:
        known = [other for other in self.nodes if other not in self.without.get(node, ())]
        lines = [f"{self.address(other)} {self.host(other)} {other}" for other in known]
        path = folder / f"hosts-{node}"
        path.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        return path

    def run(self, node: str, *argv: str, timeout_s: float = 100) -> str:
        """What `argv` prints, run on this node."""
        done = subprocess.run(
            [*self._inside(node), *argv], check=True, capture_output=True, timeout=timeout_s, text=True
        )
        return done.stdout

    def _inside(self, node: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace(node)]

    def _make(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "br0", "up")
        for number, node in enumerate(self.nodes):
            space = self.namespace(node)
            _run("ip", "netns", "add", space)
            link = ["ip", "-n", space, "link"]
            _run(*link, "add", "v0", "type", "veth", "peer", "name", f"p{number}", "netns", self._switch)
            _run("ip", "-n", self._switch, "link", "set", f"p{number}", "master", "br0", "up")
            _run("ip", "-n", space, "address", "add", f"{self.address(node)}/24", "dev", "v0")
            _run(*link, "set", "v0", "up")
            _run(*link, "set", "lo", "up")


def write_world(folder: Path, world: Mapping[str, Any]) -> dict[str, str]:
    """The environment in which each node's preflight process lives in its own part of `world`."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    (folder / "world.json").write_text(json.dumps(world))
    return {"PREFLIGHT_WORLD": str(folder / "world.json"), "PYTHONPATH": str(folder / "site")}


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=100)
