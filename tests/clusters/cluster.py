"""What a test needs of a cluster, whichever cluster it is."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from slurm_resilience.command import Completed
from slurm_resilience.errors import ResilienceError

ClusterName = Literal["embedded", "docker"]
BALLAST = "somebody-else"


class Impossible(ResilienceError):
    """This cluster, or who runs the tests, can't do that; the sentence says why."""


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process of a job on one node."""

    pid: int
    """As the node counts: in a container another number than outside."""
    command: str
    """Its command line, words separated by blanks."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A file system of a few megabytes. Everybody may write there."""

    path: Path
    """The same for the test process and for all nodes."""

    def fill(self) -> None:
        """Somebody else takes all that is left."""
        with (self.path / BALLAST).open("ab", buffering=0) as file:
            for piece_bytes in (1 << 16, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\1" * piece_bytes)

    def free(self) -> None:
        """Somebody else goes away again. May be called twice."""
        (self.path / BALLAST).unlink(missing_ok=True)


class ClusterUnderTest(Protocol):
    """A Slurm of at least four nodes with accounts for root and an ordinary user.

    Its partition `low` (the default) is preempted by `high`, with a grace, and what is preempted is queued again.
    Every verb below may raise ResilienceError when the cluster itself is broken.
    """

    @property
    def name(self) -> ClusterName: ...

    @property
    def version(self) -> str:
        """Slurm's, such as 24.11.5."""

    @property
    def node_names(self) -> tuple[str, ...]: ...

    @property
    def shared(self) -> Path:
        """A folder that everybody may write in, under one path for the test process and for all nodes."""

    @property
    def python(self) -> str:
        """An interpreter on the nodes that has what slurm_resilience needs; everybody may run it."""

    @property
    def environment(self) -> dict[str, str]:
        """What `python` needs in its environment to find slurm_resilience and all that it imports."""

    @property
    def repository(self) -> Path:
        """This repository, as the nodes see it. Perhaps read-only."""

    @property
    def has_torch(self) -> bool:
        """Whether `python` can import torch and what the examples need."""

    @property
    def ordinary_user(self) -> str:
        """Somebody who isn't root and may submit jobs."""

    def run(
        self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None, user: str | None = None
    ) -> Completed:
        """A command where users log in, as the cluster's owner (root, as a rule) or as `user`.

        Raises CommandMissing, CommandTimedOut, and Impossible when we may not become that user.
        """

    def node_states(self) -> dict[str, str]:
        """Name to state as sinfo says it, such as idle, mixed, idle*; empty when the controller doesn't answer."""

    def node_vanishes(self, node: str) -> None:
        """As if its power were cut: slurmd and every process of a job on it are gone at once; nobody is told."""

    def node_returns(self, node: str) -> None:
        """It boots and waits until Slurm gives it jobs again. Nothing where the node is up."""

    def processes(self, node: str, marker: str) -> tuple[NodeProcess, ...]:
        """Those that carry TEST_MARKER=`marker`; none on a node that has vanished."""

    def kill(self, node: str, marker: str, number: signal.Signals, words: str = "", *, but: str | None = None) -> int:
        """Signal those with `words` in their command line, and not `but`; how many that were."""

    def cut_network(self, node: str) -> None:
        """From now on the node reaches nobody, and nobody it; what runs there runs on, shared storage included.

        Raises Impossible where the nodes have no network of their own.
        """

    def mend_network(self, node: str) -> None:
        """Undo `cut_network` and wait until Slurm gives the node jobs again. Nothing where it isn't cut."""

    def small_disk(self) -> SmallDisk:
        """One file system for the whole cluster, empty when it is asked for.

        Raises Impossible where nothing can be mounted.
        """

    def stop_controller(self) -> None:
        """End slurmctld; it saves its state first."""

    def start_controller(self) -> None:
        """Start slurmctld again and wait until it answers. Nothing where it runs."""

    def plugstack(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Make these the site's plugstack lines for the commands and job launches from now on; the former ones."""


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """One user's view of a cluster: enough for tests.slurm.jobs."""

    cluster: ClusterUnderTest
    user: str | None = None
    """None: the cluster's owner."""

    def run(self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None) -> Completed:
        return self.cluster.run(*argv, timeout_s=timeout_s, env=env, user=self.user)
