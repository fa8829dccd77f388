"""srun-resilient --publish with the real publisher: copies get there, and no stop waits for them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.checkpoints.verify import verify
from slurm_resilience.cli.fetch import fetch
from slurm_resilience.clock import SystemClock
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.slurm.facts import job_facts
from slurm_resilience.supervisor.request import Publishing
from slurm_resilience.supervisor.supervise import Supervisor
from slurm_resilience.supervisor.surroundings import Mode, Shape
from tests.faults.agent_scene import REPOSITORY, wait_until
from tests.faults.fake_slurm import FakeSlurm, running
from tests.unit.supervisor.requests import request

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "h5py", "numpy", "xxhash")),
    reason="checkpoints are written with torch, h5py, numpy and xxhash",
)

TRAINING = """
import sys, time
from pathlib import Path
import torch
from slurm_resilience.training import open_run

with open_run(save_every_steps=1, snapshot="never") as run:
    model = torch.nn.Linear(1000, 1000)
    run.register(model=model)
    for epoch in run.epochs(1):
        for x in run.batches([torch.ones(1)] * 3):
            while run.step == 1 and not Path(sys.argv[1]).exists() and not run.should_stop():
                time.sleep(0.05)
            with torch.no_grad():
                model.weight += 1
"""


class Here:
    """A training in local mode. It does one step, and the others once it may."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunDirectory(folder / "run")
        self.out = folder / "out"
        self.may_finish = folder / "may-finish"
        self.program = folder / "train.py"
        self.program.write_text(TRAINING)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        command = [sys.executable, "-m", "slurm_resilience.cli.srun_resilient", "--mode=local", *options]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, f"--run-dir={self.run.path}", sys.executable, str(self.program), str(self.may_finish)],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(250)

    @property
    def publishers(self) -> list[int]:
        """The processes that publish this run."""
        wanted = [b"publish", os.fsencode(self.run.path)]
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if all(word in words for word in wanted):
                found.append(int(path.parent.name))
        return found

    @property
    def chain(self) -> Chain:
        return Chain.of(Journal(self.run).read())


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    found = Here(tmp_path)
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.kill()
        found.process.wait()


@pytest.mark.timeout(600)  # on a busy machine it is the publisher, at nice 19, that everybody else comes before
def test_what_an_interrupt_left_the_next_attempt_publishes_and_a_fresh_run_can_fetch(here: Here) -> None:
    archive = here.folder / "archive" / "run"
    place = f"file://{here.folder}/archive/{{run}}"
    here.start("--publish", place, "--publish-limit=50kB/s")
    wait_until(lambda: here.run.journal.exists() and here.chain.checkpoints, "the first checkpoint")
    wait_until(lambda: here.publishers, "the publisher's start")
    assert here.process is not None
    here.process.send_signal(signal.SIGINT)
    assert here.end() == 76, here.out.read_text()
    assert here.publishers == []
    assert not any(each.published for each in here.chain.checkpoints)

    here.may_finish.touch()
    here.start("--publish", place, "--publish-limit=2MB/s")  # at work, not asleep, when the training ends
    assert here.end() == 0, here.out.read_text()
    assert here.publishers == []
    live = here.chain.loadable()
    assert len(live) == 3
    assert all(each.published == (str(archive),) for each in live), here.out.read_text()

    newest = live[0].committed.checkpoint
    shutil.rmtree(here.run.path)
    done = CliRunner().invoke(fetch, [str(here.run.path), "--from", str(archive), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["checkpoint"] == newest
    done = CliRunner().invoke(verify, [str(here.run.path), "--no-progress"])
    assert done.exit_code == 0, done.output
    assert newest in done.output


def test_a_place_that_is_none_is_refused_before_there_is_a_run(here: Here) -> None:
    here.start("--publish=archive")
    assert here.end() == 78
    [sentence] = here.out.read_text().splitlines()
    assert sentence.startswith("srun-resilient: --publish: 'archive' is no place")
    assert not here.run.path.exists()


def test_a_dry_run_shows_the_publisher_and_starts_nothing(here: Here) -> None:
    here.start("--dry-run", f"--publish={here.folder}/{{run}}", "--publish-limit", "1GB/s")
    assert here.end() == 0, here.out.read_text()
    assert f"checkpoints publish {here.run.path} --to '{here.folder}/{{run}}' --limit 1GB/s" in here.out.read_text()
    assert not here.run.path.exists()


def test_the_requeue_comes_before_the_publisher_is_asked_to_end(here: Here) -> None:
    """Slurm is fake, and so is srun: its step fails once the publisher runs."""
    log = here.run.attempt(1) / "publish.log"
    srun = here.folder / "srun"
    srun.write_text(f"#!/bin/sh\nuntil [ -e {log} ]; do sleep 0.05; done\nexit 1\n")
    srun.chmod(0o755)
    seen: list[list[int]] = []

    class Watched(FakeSlurm):
        def requeue(self, job: JobRef) -> None:
            wait_until(lambda: here.publishers, "the publisher's own program")  # its interpreter may have just started
            seen.append(here.publishers)
            super().requeue(job)

    slurm = Watched({"7": running()})
    facts = job_facts({"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": "1"})
    supervisor = Supervisor(
        replace(request("--mem=0 python t.py"), publish=Publishing(f"{here.folder}/archive", None)),
        Mode.BATCH,
        Shape(1, 1, None),
        facts,
        slurm,
        SystemClock(),
        {**os.environ, "PATH": f"{here.folder}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)},
        here.run,
    )
    assert supervisor.supervise() == 75
    assert slurm.requeued == ["7"]
    assert len(seen[0]) == 1
    assert here.publishers == []
