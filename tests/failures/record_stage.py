"""A scene on the sandbox: one job, and what is done to it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.command import run
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.sandbox.process import Process, processes_with
from tests.clusters.embedded import EmbeddedCluster
from tests.clusters.mounts import unmount_words
from tests.failures.record_keep import ROOT, TRAINING, keep
from tests.failures.record_scene import Scene
from tests.slurm.jobs import Jobs, leftovers, wait_until

HOST_NAMES = """
import os, socket
_name = os.environ.get("SLURMD_NODENAME")
if _name:
    _real = socket.getfqdn
    socket.getfqdn = lambda name="": _name if not name else _real(name)
"""
"""All nodes are one machine: torchrun, which asks for the host's name, gets the node's, as on a real cluster."""


@dataclass
class Stage:
    cluster: EmbeddedCluster
    scene: Scene
    folder: Path
    jobs: Jobs
    job: str = ""

    @property
    def marker(self) -> str:
        return f"triage-{os.getpid()}-{self.scene.name}"

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / "run")

    @property
    def nodes(self) -> list[str]:
        listed = self.jobs.show(self.job)["NodeList"]
        return self.jobs.ask("scontrol", "show", "hostnames", listed).out.split()

    def play(self) -> None:
        site = self.folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(HOST_NAMES)
        environment = {
            "PYTHONPATH": f"{site}:{ROOT}",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SLURM_RESILIENCE_SILENT_AFTER": "20",
            **self.scene.environment,
        }
        options: dict[str, object] = {
            "nodes": self.scene.nodes,
            "exclusive": True,
            "job_name": "train",
            "no_requeue": True,
            "time": "10",
            "output": str(self.folder / "train-%j.out"),
            **self.scene.sbatch,
        }
        self.job = self.jobs.submit(self.script(), env=environment, marker=self.marker, **options)
        if self.scene.deed is not None:
            self.scene.deed(self)
        state = self.jobs.wait_end(self.job, timeout_s=self.scene.patience_s)
        wait_until(lambda: leftovers(self.marker) == [], lambda: f"left over: {leftovers(self.marker)}", 200)
        if self.scene.expect is None and state != "COMPLETED":
            raise AssertionError(f"{self.scene.name} is {state}: {self.told()}")

    def script(self) -> str:
        scene, python = self.scene, sys.executable
        training = f"{TRAINING} {scene.arguments}".replace("{folder}", str(self.folder))
        srun = scene.srun.replace("{folder}", str(self.folder))
        options = scene.options.replace("{folder}", str(self.folder))
        before = scene.before.replace("{folder}", str(self.folder))
        if scene.way == "resilient":
            again = f"{python} -m slurm_resilience.cli.srun_resilient --run-dir={self.folder}/run"
            launch = f"exec {again} --nproc-per-node={scene.ranks} {options} {srun} {python} {training}"
        elif scene.way == "plain":
            ranks = "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
            inner = f"{ranks} MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT; exec {python} {training}"
            launch = f"srun --ntasks-per-node={scene.ranks} {srun} bash -c {shlex.quote(inner)}"
        else:
            place = f"--nnodes=$SLURM_NNODES --nproc-per-node={scene.ranks}"
            if scene.way == "torchrun":
                place += " --node-rank=$SLURM_NODEID --master-addr=127.0.0.1 --master-port=$PORT"
            else:
                place += " --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:$PORT --rdzv-id=$SLURM_JOB_ID"
                place += " --local-addr=127.0.0.1" if "--local-addr" not in options else ""
                place += " --rdzv-conf=is_host=$([ $SLURM_NODEID = 0 ] && echo 1 || echo 0)"
            inner = f"exec {python} -m torch.distributed.run {place} {options} {training}"
            launch = f"srun --ntasks-per-node=1 {srun} bash -c {shlex.quote(inner)}"
        port = f"export PORT={_free_port()}"
        return f"#!/bin/bash\n{port}\n{before}\n{launch}\n"

    # What deeds are made of.

    def wait_output(self, text: str, timeout_s: float = 600) -> None:
        def said() -> bool:
            return any(text in path.read_text(errors="replace") for path in self.outputs())

        wait_until(said, lambda: f"{text!r} never came; {self.told()}", timeout_s)

    def outputs(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.suffix in (".out", ".err", ".log")]

    def told(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.outputs())

    def rank(self, rank: int) -> Process:
        """The process of that rank: the eldest that has its number."""
        found: list[Process] = []

        def there() -> bool:
            found[:] = processes_with(
                lambda _, env: env.get("TEST_MARKER") == self.marker and env.get("RANK") == str(rank)
            )
            return bool(found)

        wait_until(there, f"there is no rank {rank}", 200)
        return min(found, key=lambda process: process.pid)

    def command_line(self, pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""

    def signal_rank(self, rank: int, number: signal.Signals) -> None:
        os.kill(self.rank(rank).pid, number)


def _free_port() -> int:
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


def clear(cluster: EmbeddedCluster, jobs: Jobs) -> None:
    """Every daemon runs, no job is left, and all nodes are idle."""
    for node in cluster.node_names:
        if not cluster.sandbox.slurmd_alive(node):
            cluster.node_returns(node)
    jobs.clear(timeout_s=90)


def perform(cluster: EmbeddedCluster, scene: Scene) -> float:
    """Play it and keep what it left; how long that took, in seconds."""
    begun = time.monotonic()
    folder = cluster.shared / scene.name
    folder.mkdir()
    jobs = Jobs(cluster.sandbox, folder)
    stage = Stage(cluster, scene, folder, jobs)
    try:
        stage.play()
        keep(scene, folder, cluster.shared.parent, cluster.sandbox.site.tag, stage.marker)
    finally:
        for process in leftovers(stage.marker):
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
        for disk in (path for path in folder.iterdir() if path.is_mount()):
            run(unmount_words(disk), timeout_s=20)
        clear(cluster, jobs)
    return time.monotonic() - begun
