"""The sandbox of slurm_resilience as a cluster under test: all its nodes are this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, ResilienceError
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from slurm_resilience.sandbox.find import find_slurm
from slurm_resilience.sandbox.process import (
    Process,
    kill_all,
    processes_with,
    with_descendants,
)
from tests.clusters.cluster import ClusterName, Impossible, NodeProcess, SmallDisk
from tests.clusters.interpreter import ROOT, TORCH, Interpreter, become_words, choose_interpreter
from tests.clusters.mounts import mount_small, unmount_words

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

RETURNS_WITHIN_S = 180.0


class EmbeddedCluster:
    """`with EmbeddedCluster() as cluster:`; where we aren't root, its owner is also its ordinary user."""

    def __init__(self, spec: ClusterSpec | None = None) -> None:
        # Where Slurm ends the whole job, the ranks get 6 s less than KillWait: on a busy machine that may be all.
        self._spec = spec if spec is not None else ClusterSpec(kill_wait_s=30)
        self._folder: Path | None = None
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        # Not in the test's own folder: that is closed to other users.
        folder = Path(tempfile.mkdtemp(prefix="slurm-embedded-", dir="/tmp"))
        folder.chmod(0o755)
        self._folder = folder
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        try:
            cluster = Cluster(self._spec, folder=folder / "slurm")
            cluster.up()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._cluster = cluster
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sandbox.down()
        for mounted in (place for place in self.shared.iterdir() if place.is_mount()):
            run(unmount_words(mounted), timeout_s=20)
        shutil.rmtree(self.shared.parent, ignore_errors=True)
        self._cluster = self._folder = None

    @property
    def sandbox(self) -> Cluster:
        if self._cluster is None:
            raise ResilienceError("the cluster under test is not up")
        return self._cluster

    @property
    def name(self) -> ClusterName:
        return "embedded"

    @property
    def version(self) -> str:
        return find_slurm().version_text.split()[-1]

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.sandbox.node_names

    @property
    def shared(self) -> Path:
        if self._folder is None:
            raise ResilienceError("the cluster under test is not up")
        return self._folder / "shared"

    @property
    def python(self) -> str:
        return self._interpreter.program

    @property
    def environment(self) -> dict[str, str]:
        return self._interpreter.environment

    @functools.cached_property
    def _interpreter(self) -> Interpreter:
        return choose_interpreter(self.ordinary_user)

    @property
    def repository(self) -> Path:
        return ROOT

    @functools.cached_property
    def has_torch(self) -> bool:
        return self._interpreter.manages(TORCH) == ""

    @property
    def ordinary_user(self) -> str:
        return "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def run(
        self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None, user: str | None = None
    ) -> Completed:
        if user is None or pwd.getpwnam(user).pw_uid == os.geteuid():
            return self.sandbox.run(*argv, timeout_s=timeout_s, env=env)
        if os.geteuid() != 0:
            raise Impossible(f"only root may become {user}")
        if self._interpreter.refused:
            raise Impossible(self._interpreter.refused)
        # Our own TMPDIR may be closed to others; slurmstepd then says so in every job's output.
        home = {"HOME": pwd.getpwnam(user).pw_dir, "USER": user, "LOGNAME": user, "TMPDIR": "/tmp"}
        if shutil.which(argv[0], path=self.sandbox.environment()["PATH"]) is None:
            raise CommandMissing(f"there is no program {argv[0]!r} here")
        return self.sandbox.run(*become_words(user), *argv, timeout_s=timeout_s, env={**home, **(env or {})})

    def node_states(self) -> dict[str, str]:
        return self.sandbox.status().nodes

    def node_vanishes(self, node: str) -> None:
        cluster = self.sandbox
        # First all are stopped, so that none sees another one die.
        slurmd = cluster.daemons.process(f"slurmd-{node}")
        for process in ([slurmd] if slurmd is not None else []) + self._of_jobs(node):
            process.signal(signal.SIGSTOP)
        cluster.kill_slurmd(node)
        kill_all(lambda: self._of_jobs(node), timeout_s=20)

    def node_returns(self, node: str) -> None:
        if not self.sandbox.slurmd_alive(node):
            self.sandbox.start_slurmd(node)
        _wait_serving(self, node)

    def processes(self, node: str, marker: str) -> tuple[NodeProcess, ...]:
        return tuple(NodeProcess(process.pid, _command_line(process.pid)) for process in self._marked(node, marker))

    def kill(self, node: str, marker: str, number: signal.Signals, words: str = "", *, but: str | None = None) -> int:
        killed = 0
        for process in self._marked(node, marker):
            line = _command_line(process.pid)
            if words in line and (but is None or but not in line):
                process.signal(number)
                killed += 1
        return killed

    def cut_network(self, node: str) -> None:
        raise Impossible("the nodes of the embedded cluster are one machine and share its network")

    def mend_network(self, node: str) -> None:
        """Nothing: it is never cut."""

    def small_disk(self) -> SmallDisk:
        disk = SmallDisk(self.shared / "small")
        if disk.path.is_mount():
            for left in disk.path.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        else:
            mount_small(disk.path)
        return disk

    def stop_controller(self) -> None:
        self.sandbox.stop_controller()

    def start_controller(self) -> None:
        if not self.sandbox.daemons.alive("slurmctld"):
            self.sandbox.start_controller()

    def plugstack(self, lines: Sequence[str]) -> tuple[str, ...]:
        conf = self.sandbox.layout.plugstack_conf
        former = tuple(conf.read_text().splitlines())
        conf.write_text("".join(f"{line}\n" for line in lines))
        return former

    def _marked(self, node: str, marker: str) -> list[Process]:
        return list(
            processes_with(lambda _, env: env.get("TEST_MARKER") == marker and env.get("SLURMD_NODENAME") == node)
        )

    def _of_jobs(self, node: str) -> list[Process]:
        """What runs of jobs on that node, slurmstepds included."""
        conf, log = str(self.sandbox.layout.slurm_conf), str(self.sandbox.layout.log(f"slurmd-{node}"))
        steps = [
            process
            for process in processes_with(lambda name, _: name == "slurmstepd")
            if log in set(_open_files(process.pid))  # nothing else of it says which node it is on
        ]
        tasks = processes_with(lambda _, env: env.get("SLURM_CONF") == conf and env.get("SLURMD_NODENAME") == node)
        return with_descendants([*steps, *tasks])


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(entry.readlink())


def _wait_serving(cluster: EmbeddedCluster, node: str) -> None:
    deadline = time.monotonic() + RETURNS_WITHIN_S
    while (state := cluster.node_states().get(node, "")).endswith("*") or state not in ("idle", "mixed", "allocated"):
        if time.monotonic() > deadline:
            raise ResilienceError(f"node {node} is {state or 'unknown'} {RETURNS_WITHIN_S:g} s after it returned")
        if "down" in state or "drain" in state:
            cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        time.sleep(0.1)
