"""The daemons of one cluster: how each is started, recognised, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import slurm_resilience
from slurm_resilience.errors import ResilienceError
from slurm_resilience.sandbox.config import Layout
from slurm_resilience.sandbox.process import (
    Process,
    identify,
    kill_all,
    load_process,
    processes_with,
    save_process,
    with_descendants,
)

MARKER = "SLURM_RESILIENCE_SANDBOX"
"""In the environment of every daemon, and so of every slurmstepd; its value is the cluster's folder."""

PORT_TAKEN = (
    "in use",  # slurmd, and slurmctld of 22.05
    "bind",
    "already is listening on the ports",  # slurmctld of 24.11
)
GUARD = "guard"
PACKAGE_PARENT = str(Path(slurm_resilience.__file__).parent.parent)


class DaemonFailed(ResilienceError):
    def __init__(self, daemon: str, last_line: str) -> None:
        super().__init__(f"{daemon} of the sandbox does not run; it said last: {last_line or 'nothing'}")
        self.daemon = daemon
        self.last_line = last_line

    @property
    def port_was_taken(self) -> bool:
        return any(words in self.last_line for words in PORT_TAKEN)


class Daemons:
    """Starts daemons in the foreground, each in a session of its own, and notes who they are in the cluster's folder.

    Whoever attaches to the folder later, in another process, can end them just as well.
    """

    def __init__(self, layout: Layout, programs: Mapping[str, Path]) -> None:
        self._layout = layout
        self._programs = programs
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start_munged(self) -> None:
        layout = self._layout
        self._start(
            "munged",
            [
                str(self._programs["munged"]),
                "--foreground",
                f"--socket={layout.munge_socket}",
                f"--key-file={layout.munge_key}",
                f"--seed-file={layout.munge_private / 'seed'}",
                f"--pid-file={layout.munge_private / 'pid'}",
                "--num-threads=2",
            ],
        )

    def start_controller(self) -> None:
        self._start("slurmctld", [str(self._programs["slurmctld"]), "-D", "-f", str(self._layout.slurm_conf)])

    def start_node(self, node: str) -> None:
        program = str(self._programs["slurmd"])
        self._start(node_daemon(node), [program, "-D", "-N", node, "-f", str(self._layout.slurm_conf)])

    def start_guard(self, owner_pid: int) -> None:
        """Have everything ended when that process dies."""
        owner = identify(owner_pid)
        ticks = "0" if owner is None else str(owner.start_ticks)
        module = "slurm_resilience.sandbox.guard"
        self._start(GUARD, [sys.executable, "-m", module, str(self._layout.folder), str(owner_pid), ticks])

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """End the guard, if there is one, only after what is inside: until then it stands in for us if we die."""
        guard = self.process(GUARD)
        yield
        if guard is not None and guard.pid != os.getpid():
            guard.signal(signal.SIGKILL)
            child = self._children.get(GUARD)
            if child is not None:
                child.wait()

    def _start(self, daemon: str, argv: list[str]) -> None:
        if self.alive(daemon):
            return
        environment = {
            "PATH": daemon_path(self._programs.values()),
            "HOME": "/",
            "LC_ALL": "C",
            "SLURM_CONF": str(self._layout.slurm_conf),
            MARKER: str(self._layout.folder),
            "PYTHONPATH": PACKAGE_PARENT,  # the guard must find us where we are not installed
        }
        # Slurm's daemons write their log file themselves; here goes what they say before they have read where it is.
        said = self._layout.logs / f"{daemon}.out"
        with said.open("ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is meant for somebody else
            )
        self._children[daemon] = child
        process = identify(child.pid)
        if process is None:
            raise DaemonFailed(daemon, self.last_line(daemon))
        save_process(self._note(daemon), process)

    def disown(self) -> None:
        """Let the daemons be somebody else's to wait for."""
        for child in self._children.values():
            child.returncode = 0  # or Python would warn that we forgot a running child
        self._children.clear()

    def process(self, daemon: str) -> Process | None:
        return load_process(self._note(daemon))

    def alive(self, daemon: str) -> bool:
        self._reap(daemon)
        process = self.process(daemon)
        return process is not None and process.alive()

    def names(self) -> list[str]:
        """Every daemon that was ever started here."""
        return sorted(note.stem for note in self._layout.pids.glob("*.json"))

    def raise_for_dead(self, *daemons: str) -> None:
        """For one of these, or for any that was ever started."""
        for daemon in daemons or self.names():
            if not self.alive(daemon):
                raise DaemonFailed(daemon, self.last_line(daemon))

    def end(self, daemon: str, number: signal.Signals, *, timeout_s: float = 10) -> None:
        """Send the signal and wait until the daemon is gone; SIGKILL when it is not gone in time."""
        process = self.process(daemon)
        if process is None:
            return
        process.signal(number)
        deadline = time.monotonic() + timeout_s
        while process.alive():
            self._reap(daemon)
            if time.monotonic() > deadline:
                process.signal(signal.SIGKILL)
                deadline = time.monotonic() + timeout_s
            time.sleep(0.01)
        child = self._children.pop(daemon, None)
        if child is not None:
            child.wait()  # its first thread may have ended before the others

    def end_all(self, nodes: frozenset[str]) -> None:
        """End every daemon, slurmstepd and job process of this cluster, whoever started or orphaned it.

        Not ended: an orphan of a job that has also emptied its environment, where no cgroup holds it.
        """
        # The controller first, so that nothing new is started; then all the others, munged included, at once.
        self.end("slurmctld", signal.SIGKILL)
        kill_all(lambda: self.members(nodes), timeout_s=20)
        for daemon, child in self._children.items():
            if daemon != GUARD:
                child.wait()

    def members(self, nodes: frozenset[str]) -> list[Process]:
        """Every process of this cluster that lives now, the guard left out."""
        guard = self.process(GUARD)
        folder, conf = str(self._layout.folder), str(self._layout.slurm_conf)

        def belongs(command: str, environment: dict[str, str]) -> bool:
            if environment.get(MARKER) == folder:
                return True
            if environment.get("SLURM_CONF") != conf:
                return False
            # A person's shell may well have our SLURM_CONF; only slurmd gives a process the name of its node.
            return environment.get("SLURMD_NODENAME") in nodes or command == "srun"

        found = with_descendants([process for process in processes_with(belongs) if process != guard])
        return [process for process in found if process != guard]

    def last_line(self, daemon: str) -> str:
        """What the daemon said last, preferring its complaints."""
        lines: list[str] = []
        for path in (self._layout.logs / f"{daemon}.out", self._layout.log(daemon)):
            with contextlib.suppress(OSError):
                lines += [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if "fatal" in line]
        complaints = [line for line in lines if "error" in line.lower()]
        return (fatal or complaints or lines or [""])[-1]

    def _note(self, daemon: str) -> Path:
        return self._layout.pids / f"{daemon}.json"

    def _reap(self, daemon: str) -> None:
        child = self._children.get(daemon)
        if child is not None:
            child.poll()


def daemon_path(programs: Iterable[Path]) -> str:
    """With the folders of Slurm's programs: the guard looks for them again, and they may be in /opt."""
    folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", *(str(program.parent) for program in programs)]
    return os.pathsep.join(dict.fromkeys(folders))


def node_daemon(node: str) -> str:
    return f"slurmd-{node}"
