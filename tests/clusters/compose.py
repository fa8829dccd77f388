"""The cluster of docker-compose.slurm.yml as a cluster under test: every node is a container."""

from __future__ import annotations

import functools
import json
import os
import secrets
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut, ResilienceError
from tests.clusters.cluster import ClusterName, Impossible, NodeProcess, SmallDisk
from tests.clusters.engine import Engine, find_engine
from tests.clusters.guard import start_guard
from tests.clusters.interpreter import ROOT, TORCH
from tests.clusters.mounts import as_root_words, mount_small, unmount_words
from tests.clusters.probe import PROBE

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

COMPOSE_FILE = ROOT / "docker-compose.slurm.yml"
REPOSITORY = Path("/opt/slurm-resilience")
NODES = ("c1", "c2", "c3", "c4")
PLUGSTACK = "/etc/slurm/plugstack.conf.d"
SERVES = frozenset({"idle", "mixed", "allocated"})
UP_WITHIN_S = 180.0
RETURNS_WITHIN_S = 120.0
BUILT_WITHIN_S = 1800.0


class ComposeCluster:
    """`with ComposeCluster() as cluster:` has its nodes idle inside; nothing of it is left outside, images excepted.

    If the process that holds it dies, even of SIGKILL, the containers are taken down all the same.
    """

    def __init__(self) -> None:
        self._project = f"slurm-test-{os.getpid()}-{secrets.token_hex(3)}"
        self._folder: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._no_small_disk = ""
        self._cut: dict[str, dict[str, Any]] = {}
        """Nodes without a network, and the networks that each had."""

    def __enter__(self) -> Self:
        engine = self.engine
        folder = Path(tempfile.mkdtemp(prefix="slurm-compose-", dir="/tmp"))
        folder.chmod(0o755)
        self._folder = folder
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        try:
            mount_small(self._small)  # what is mounted later is not seen in the containers
        except Impossible as error:
            self._no_small_disk = str(error)
        end = [*self._compose_words(engine), "down", "--volumes", "--remove-orphans", "--timeout=1"]
        after = [unmount_words(self._small), as_root_words("rm", "-rf", str(folder))]
        self._guard = start_guard(end, *after, env=self._compose_environment())
        try:
            self._compose("up", "--detach", timeout_s=BUILT_WITHIN_S)
            self._wait(lambda: set(self.node_states().values()) == {"idle"}, "the nodes are not idle", UP_WITHIN_S)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.down()

    def down(self) -> None:
        """May be called twice."""
        if self._guard is None or self._guard.stdin is None:
            return
        self._guard.stdin.close()
        self._guard.wait(timeout=120)
        self._guard = None

    @functools.cached_property
    def engine(self) -> Engine:
        return find_engine()

    def _compose_words(self, engine: Engine) -> list[str]:
        return [*engine.compose, "--file", str(COMPOSE_FILE), "--project-directory", str(ROOT)]

    def _compose_environment(self) -> dict[str, str]:
        shared = str(self.shared)
        return {"COMPOSE_PROJECT_NAME": self._project, "CLUSTER_SHARED": shared, "CLUSTER_SHARED_AT": shared}

    def _compose(self, *argv: str, timeout_s: float) -> Completed:
        words = [*self._compose_words(self.engine), *argv]
        answer = run(words, timeout_s=timeout_s, env={**os.environ, **self._compose_environment()})
        if answer.code != 0:
            raise ResilienceError(f"{shlex.join(words)}: {answer.err[-2000:]}")
        return answer

    @property
    def name(self) -> ClusterName:
        return "docker"

    @functools.cached_property
    def version(self) -> str:
        return self._must("sinfo", "--version").split()[-1]

    @property
    def node_names(self) -> tuple[str, ...]:
        return NODES

    @property
    def shared(self) -> Path:
        if self._folder is None:
            raise ResilienceError("the cluster under test is not up")
        return self._folder / "shared"

    @property
    def _small(self) -> Path:
        return self.shared / "small"

    @property
    def python(self) -> str:
        return "python3"

    @property
    def repository(self) -> Path:
        return REPOSITORY

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}

    @functools.cached_property
    def has_torch(self) -> bool:
        return self.run(self.python, "-c", TORCH, timeout_s=60).code == 0

    @property
    def ordinary_user(self) -> str:
        return "alice"

    def run(
        self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None, user: str | None = None
    ) -> Completed:
        return self._exec("login", *argv, timeout_s=timeout_s, env=env, user=user)

    def _exec(
        self,
        service: str,
        *argv: str,
        timeout_s: float = 30,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        given: str | None = None,
    ) -> Completed:
        """A command in a container. Raises CommandMissing, CommandTimedOut."""
        words = ["docker", "exec"]
        words += [word for name, value in (env or {}).items() for word in ("--env", f"{name}={value}")]
        if user is not None:
            words += ["--user", user]
        if given is not None:
            words.append("--interactive")
        # Docker leaves the command running when its client is killed: so the limit is in there, too.
        limit = ["timeout", "--kill-after=1", f"{timeout_s:g}"]
        answer = run([*words, self.container(service), *limit, *argv], timeout_s=timeout_s + 20, given=given)
        if answer.code == 127 and "failed to run command" in answer.err:
            raise CommandMissing(f"there is no program {argv[0]!r} in {service}")
        if answer.code in (124, 137) and not answer.err:
            raise CommandTimedOut(f"{' '.join(argv)} did not answer within {timeout_s:g} s")
        return Completed(argv, answer.code, answer.out, answer.err)

    def container(self, service: str) -> str:
        """Its id, whether it runs or not."""
        return self._containers[service]

    @functools.cached_property
    def _containers(self) -> dict[str, str]:
        label = "com.docker.compose"
        words = ("ps", "--all", "--no-trunc", f"--filter=label={label}.project={self._project}")
        answer = self.engine.docker(*words, "--format", f'{{{{.ID}}}} {{{{.Label "{label}.service"}}}}')
        return {service: number for number, _, service in (line.partition(" ") for line in answer.out.splitlines())}

    def _must(self, *argv: str, timeout_s: float = 30) -> str:
        answer = self.run(*argv, timeout_s=timeout_s)
        if answer.code != 0:
            raise ResilienceError(answer.complaint)
        return answer.out

    def node_states(self) -> dict[str, str]:
        try:
            answer = self.run("sinfo", "-h", "-N", "-o", "%N %T", timeout_s=5)
        except CommandTimedOut:
            return {}
        lines = answer.out.splitlines() if answer.code == 0 else []
        return {name: state for name, _, state in (line.strip().partition(" ") for line in lines)}

    def node_vanishes(self, node: str) -> None:
        self.engine.docker("kill", self.container(node))

    def node_returns(self, node: str) -> None:
        self.engine.docker("start", self.container(node))
        self._wait_serving(node)

    def _wait_serving(self, node: str) -> None:
        def serves() -> bool:
            state = self.node_states().get(node, "")
            if state.startswith(("down", "drain")):
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
            return state in SERVES

        self._wait(serves, f"node {node} does not come back", RETURNS_WITHIN_S)

    def processes(self, node: str, marker: str) -> tuple[NodeProcess, ...]:
        return self._probe(node, marker, 0)

    def kill(self, node: str, marker: str, number: signal.Signals, words: str = "", *, but: str | None = None) -> int:
        return len(self._probe(node, marker, number, words, but or ""))

    def _probe(self, node: str, marker: str, number: int, words: str = "", but: str = "") -> tuple[NodeProcess, ...]:
        running = self.engine.docker("inspect", "--format", "{{.State.Running}}", self.container(node)).out.strip()
        if running != "true":
            return ()
        answer = self._exec(node, self.python, "-c", PROBE, marker, str(int(number)), words, but)
        if answer.code != 0:
            raise ResilienceError(f"the processes of {node} can't be listed: {answer.complaint}")
        lines = (line.partition(" ") for line in answer.out.splitlines())
        return tuple(NodeProcess(int(pid), command) for pid, _, command in lines)

    def cut_network(self, node: str) -> None:
        container = self.container(node)
        answer = self.engine.docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", container)
        self._cut[node] = json.loads(answer.out)
        for network in self._cut[node]:
            self.engine.docker("network", "disconnect", network, container)

    def mend_network(self, node: str) -> None:
        if node not in self._cut:
            return
        for network, had in self._cut.pop(node).items():
            aliases = [f"--alias={alias}" for alias in had.get("Aliases") or ()]
            configured = (had.get("IPAMConfig") or {}).get("IPv4Address")
            address = [f"--ip={configured}"] if configured else []
            self.engine.docker("network", "connect", *aliases, *address, network, self.container(node))
        self._wait_serving(node)

    def address(self, node: str) -> str:
        """Of a node that runs and has its network."""
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        return self.engine.docker("inspect", "--format", form, self.container(node)).out.split()[0]

    def small_disk(self) -> SmallDisk:
        if self._no_small_disk:
            raise Impossible(self._no_small_disk)
        self._must("sh", "-c", f"find {shlex.quote(str(self._small))} -mindepth 1 -delete")
        return SmallDisk(self._small)

    def stop_controller(self) -> None:
        self.engine.docker("stop", "--time=30", self.container("slurmctld"))

    def start_controller(self) -> None:
        self.engine.docker("start", self.container("slurmctld"))
        self._wait(lambda: bool(self.node_states()), "slurmctld does not answer", RETURNS_WITHIN_S)

    def plugstack(self, lines: Sequence[str]) -> tuple[str, ...]:
        former = self._exec("slurmctld", "sh", "-c", f"cat {PLUGSTACK}/*.conf 2>/dev/null || true").out
        text = "".join(f"{line}\n" for line in lines)
        script = f"rm -f {PLUGSTACK}/*.conf && cat > {PLUGSTACK}/site.conf"
        answer = self._exec("slurmctld", "sh", "-c", script, given=text)
        if answer.code != 0:
            raise ResilienceError(f"the plugstack can't be written: {answer.complaint}")
        return tuple(former.splitlines())

    def _wait(self, happened: Callable[[], bool], what: str, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not happened():
            if time.monotonic() > deadline:
                raise ResilienceError(f"{what} within {within_s:g} s: {self.node_states()}")
            time.sleep(0.2)
