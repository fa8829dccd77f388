"""A Slurm cluster of one's own, on this machine, for as long as it is needed."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandTimedOut, ConfigurationError
from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.config import ClusterSpec, Layout, Site, cgroup_conf, node_names, slurm_conf
from slurm_resilience.sandbox.daemons import DaemonFailed, Daemons, node_daemon
from slurm_resilience.sandbox.find import Installation, find_slurm
from slurm_resilience.sandbox.process import kill_all
from slurm_resilience.sandbox.site import choose_site, load, make_folder, make_runtime, save

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

TRIES_FOR_PORTS = 5
SLURMS_OWN = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SPANK_", "PMI")
"""Variables that begin like this belong to another cluster, or to a job of it, and would be obeyed by our clients."""


@dataclass(frozen=True, slots=True)
class Status:
    folder: Path
    version: str
    daemons: dict[str, bool]
    """Which daemons live."""
    nodes: dict[str, str]
    """What the controller says of each node; empty when it doesn't answer."""

    @property
    def healthy(self) -> bool:
        return all(self.daemons.values()) and bool(self.nodes)


class Cluster:
    """`with Cluster(spec) as cluster:` has its nodes idle inside, and nothing of it is left outside.

    If the process that holds it dies, even of SIGKILL, the cluster ends itself within about a second. Not so after
    a bare `up(outlive_me=True)`, which is for the command line: that cluster stays until somebody calls `down()`.
    """

    def __init__(self, spec: ClusterSpec | None = None, *, folder: Path | None = None, keep: bool = False) -> None:
        self.spec = spec if spec is not None else ClusterSpec()
        self.keep = keep
        self._wanted_folder = folder
        self._folder: Path | None = None
        self._site: Site | None = None
        self._installation: Installation | None = None
        self._daemons: Daemons | None = None

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        """The cluster that somebody else has up in `folder`. Raises ConfigurationError when there is none."""
        spec, site = load(folder)
        cluster = cls(spec, folder=folder)
        cluster._open(folder, site)
        return cluster

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.down()

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise ConfigurationError("the sandbox is not up")
        return self._folder

    @property
    def layout(self) -> Layout:
        return Layout(self.folder, Path(self.site.runtime))

    @property
    def site(self) -> Site:
        if self._site is None:
            raise ConfigurationError("the sandbox is not up")
        return self._site

    @property
    def node_names(self) -> tuple[str, ...]:
        return node_names(self.site.tag, self.spec.nodes)

    @property
    def daemons(self) -> Daemons:
        if self._daemons is None:
            raise ConfigurationError("the sandbox is not up")
        return self._daemons

    def environment(self) -> dict[str, str]:
        """The environment for clients: ours, with SLURM_CONF and PATH, without what another Slurm has put there."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(SLURMS_OWN)}
        path = ours.get("PATH", os.defpath).split(os.pathsep)
        additions = self._find().path_additions
        ours["PATH"] = os.pathsep.join([*path, *(folder for folder in additions if folder not in path)])
        ours["SLURM_CONF"] = str(self.layout.slurm_conf)
        return ours

    def run(self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None) -> Completed:
        """Run a client command against this cluster, with `env` added to its environment."""
        return run(argv, timeout_s=timeout_s, env={**self.environment(), **(env or {})})

    def up(self, *, outlive_me: bool = False, timeout_s: float = 180) -> None:
        """Bring the cluster up and wait until all its nodes are idle.

        Raises ConfigurationError (no Slurm here, no cgroup, folder in use) and DaemonFailed; nothing is left behind.
        """
        installation = self._find()
        if self.spec.proctrack == "cgroup":
            answer = cgroup.probe()
            if isinstance(answer, cgroup.Unusable):
                raise ConfigurationError(answer.why)
        for remaining in reversed(range(TRIES_FOR_PORTS)):
            runtime = make_runtime()
            try:
                site = choose_site(self.spec, installation.version, runtime)
                folder = make_folder(self._wanted_folder)
            except BaseException:
                runtime.rmdir()
                raise
            try:
                self._open(folder, site)
                self._write_files()
                self._start(outlive_me, time.monotonic() + timeout_s)
                if outlive_me:
                    self.daemons.disown()
                return
            except BaseException as error:
                keep_for_a_look = self.keep and not remaining
                self.down(keep=keep_for_a_look)
                # Between our look at a port and the daemon's bind somebody else may have taken it.
                if not (isinstance(error, DaemonFailed) and error.port_was_taken and remaining):
                    raise

    def down(self, *, keep: bool | None = None) -> None:
        """End everything that belongs to this cluster, however much of it still lives. May be called twice."""
        if self._folder is None:
            return
        nodes = self.node_names
        tops = [top for node in nodes for top in cgroup.folders_of(node)]
        for top in tops:
            cgroup.thaw(top)
        with self.daemons.guarded():
            self.daemons.end_all(frozenset(nodes))
            kill_all(lambda: [process for top in tops for process in cgroup.processes_in(top)], timeout_s=20)
            for top in tops:
                cgroup.remove(top)
            shutil.rmtree(self.site.runtime, ignore_errors=True)
            if not (self.keep if keep is None else keep):
                shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._site = self._daemons = None

    def status(self) -> Status:
        daemons = {name: self.daemons.alive(name) for name in self.daemons.names()}
        nodes = self._node_states(timeout_s=10) if daemons.get("slurmctld") and daemons.get("munged") else {}
        return Status(self.folder, self._find().version_text, daemons, nodes)

    def stop_controller(self) -> None:
        """End slurmctld; it saves its state first."""
        self.daemons.end("slurmctld", signal.SIGTERM, timeout_s=30)

    def start_controller(self, *, timeout_s: float = 120) -> None:
        """Start slurmctld again and wait until it answers."""
        self.daemons.start_controller()
        deadline = time.monotonic() + timeout_s
        self._wait(lambda: bool(self._node_states()), "slurmctld", deadline, needs=("slurmctld",))

    def slurmd_alive(self, node: str) -> bool:
        return self.daemons.alive(node_daemon(self._known(node)))

    def kill_slurmd(self, node: str) -> None:
        """SIGKILL to the node's slurmd. Its slurmstepds and the job live on, as on a node that lost touch."""
        self.daemons.end(node_daemon(self._known(node)), signal.SIGKILL)

    def start_slurmd(self, node: str, *, timeout_s: float = 120) -> None:
        """Start the node's slurmd again and wait until the controller has heard of it."""
        self.daemons.start_node(self._known(node))
        deadline, slurmd = time.monotonic() + timeout_s, node_daemon(node)
        self._wait(lambda: _serves(self._node_states().get(node, "")), slurmd, deadline, needs=(slurmd,))

    def _known(self, node: str) -> str:
        if node not in self.node_names:
            raise ConfigurationError(f"the sandbox has no node {node}, only {', '.join(self.node_names)}")
        return node

    def _find(self) -> Installation:
        if self._installation is None:
            self._installation = find_slurm()
        return self._installation

    def _open(self, folder: Path, site: Site) -> None:
        self._folder = folder
        self._site = site
        self._daemons = Daemons(self.layout, self._find().programs)

    def _write_files(self) -> None:
        layout, spec, site = self.layout, self.spec, self.site
        save(self.folder, spec, site)
        for folder in (layout.state, layout.spool, layout.logs, layout.pids, layout.munge_socket.parent):
            folder.mkdir(mode=0o755)
        layout.munge_private.mkdir(mode=0o700)
        layout.munge_key.touch(mode=0o600)
        layout.munge_key.write_bytes(secrets.token_bytes(128))
        layout.munge_key.chmod(0o400)
        layout.slurm_conf.write_text(slurm_conf(spec, site, layout))
        layout.cgroup_conf.write_text(cgroup_conf(spec, site))
        layout.plugstack_conf.write_text("".join(f"{line}\n" for line in spec.plugstack))

    def _start(self, outlive_me: bool, deadline: float) -> None:
        daemons = self.daemons
        if not outlive_me:
            daemons.start_guard(os.getpid())
        daemons.start_munged()
        self._wait(self.layout.munge_socket.exists, "munged", deadline)
        daemons.start_controller()
        for node in self.node_names:
            daemons.start_node(node)
        self._wait(self._all_idle, "slurmctld", deadline)

    def _all_idle(self) -> bool:
        states = self._node_states()
        return all(states.get(node) == "idle" for node in self.node_names)

    def _node_states(self, *, timeout_s: float = 3) -> dict[str, str]:
        """Name to state, such as idle, mixed, idle* (does not respond). Empty when the controller doesn't answer."""
        try:
            # A client would ask a controller that isn't there for 20 s.
            answer = self.run("sinfo", "-h", "-N", "-o", "%N %T", timeout_s=timeout_s)
        except CommandTimedOut:
            return {}
        if answer.code != 0:
            return {}
        return {name: state for name, _, state in (line.strip().partition(" ") for line in answer.out.splitlines())}

    def _wait(self, done: Callable[[], bool], daemon: str, deadline: float, *, needs: tuple[str, ...] = ()) -> None:
        """`needs`: in vain without these; none named: without any of them all."""
        while not done():
            self.daemons.raise_for_dead(*needs)
            if time.monotonic() > deadline:
                raise DaemonFailed(daemon, self.daemons.last_line(daemon))
            time.sleep(0.05)


def _serves(state: str) -> bool:
    return bool(state) and not state.endswith("*") and not state.startswith("down")
