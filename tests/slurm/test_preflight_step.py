"""Preflight on a real Slurm: the four ways to start it, and nodes on which it can't be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from slurm_resilience.command import Completed
from slurm_resilience.preflight.srun_step import SrunStep, StepPlan
from slurm_resilience.preflight.step import Step
from slurm_resilience.preflight.way import Way
from slurm_resilience.sandbox.cluster import Cluster
from tests.contract.preflight_step_contract import PROMISES, StepScene
from tests.slurm.jobs import Jobs, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)

PREFLIGHT = (sys.executable, "-m", "slurm_resilience.cli.main", "preflight")
CHEAP = ("--only=presence,clock,cpus,names,tcp", "--time-limit=120")
"""What a busy machine does quickly."""
PATIENCE_S = 180


@pytest.fixture(autouse=True)
def baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is not kept for this machine's user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # the cluster drops names that begin with SLURM


@dataclass
class SrunScene:
    cluster: Cluster
    job: str
    tasks: int = 2

    def step(self, program: str) -> Step:
        nodes = self.cluster.node_names[:2]
        environment = {**self.cluster.environment(), "SLURM_JOB_ID": self.job, "SLURM_JOB_NODELIST": ",".join(nodes)}
        return SrunStep.of(StepPlan(Way.JOB, (sys.executable, "-c", program), nodes), environment)


def test_srun_keeps_the_contract_of_a_step(cluster: Cluster, jobs: Jobs) -> None:
    job = jobs.submit("sleep 600", nodes=2, nodelist=",".join(cluster.node_names[:2]))
    jobs.wait_state(job, "RUNNING")
    scene: StepScene = SrunScene(cluster, job)
    for promise in PROMISES:
        promise(scene)


def _report(answer: Completed | str) -> dict[str, Any]:
    text = answer if isinstance(answer, str) else answer.out
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert isinstance(found, dict)
    return found


def _outcomes(report: dict[str, Any], node: str) -> set[str]:
    return {result["outcome"] for result in report["results"] if result["node"] == node}


def test_from_a_login_node_it_gets_its_nodes_by_itself(cluster: Cluster, jobs: Jobs) -> None:
    nodes = list(cluster.node_names)
    listed = ",".join(nodes[1:3])
    answer = cluster.run(*PREFLIGHT, *CHEAP, "--json", f"--nodes={listed}", "--", "-Q", timeout_s=PATIENCE_S)
    report = _report(answer)
    assert (answer.code, report["outcome"], report["nodes"]) == (0, "ok", nodes[1:3])
    assert report["job"] is not None
    assert set(report["clock_offsets_s"]) == set(nodes[1:3])


def test_in_a_batch_script_it_looks_at_all_nodes_of_the_job_and_keeps_its_report_in_the_run(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    words = " ".join((*PREFLIGHT, *CHEAP, f"--run-dir={tmp_path / 'run'}"))
    # Several tasks a node, and settings that srun would obey: preflight has one process a node all the same.
    job = jobs.submit(
        f"export SLURM_LABELIO=1 SLURM_STDOUTMODE=none\n{words}\necho code $?", nodes=4, ntasks_per_node=2
    )
    output = jobs.wait_output(job, "code ", timeout_s=PATIENCE_S)
    assert "code 0" in output
    assert re.search(r"^clock +ok +4 nodes", output, re.MULTILINE)
    report = json.loads((tmp_path / "run" / "preflight" / f"{job}-0.json").read_text())
    assert (report["job"], report["restart"], report["nodes"]) == (job, 0, list(cluster.node_names))
    assert all("ok" in _outcomes(report, node) for node in cluster.node_names)


def test_as_a_step_of_a_job_only_its_first_task_speaks_for_the_nodes_of_that_step(cluster: Cluster, jobs: Jobs) -> None:
    nodes = ",".join(cluster.node_names[:3])
    step = ("srun", "-N3", f"--nodelist={nodes}", "--ntasks-per-node=2", *PREFLIGHT, *CHEAP, "--json")
    answer = cluster.run(*step, timeout_s=PATIENCE_S)
    assert (answer.code, answer.out.count('"format"')) == (0, 1)
    assert _report(answer)["nodes"] == list(cluster.node_names[:3])


def test_where_srun_cannot_start_it_on_a_node_the_others_are_looked_at_and_that_one_is_left_out(
    cluster: Cluster, jobs: Jobs
) -> None:
    bad = cluster.node_names[1]
    job = jobs.submit("sleep 600", nodes=4, no_kill=True)
    jobs.wait_state(job, "RUNNING")
    cluster.kill_slurmd(bad)
    in_job = {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": ",".join(cluster.node_names)}
    answer = cluster.run(*PREFLIGHT, *CHEAP, "--json", timeout_s=PATIENCE_S, env=in_job)
    report = _report(answer)
    assert (answer.code, report["exclude"]) == (2, [bad])
    (drain,) = report["drain"]
    assert drain.startswith(f"scontrol update NodeName={bad} State=DRAIN Reason=")
    assert all(_outcomes(report, node) == {"ok"} for node in cluster.node_names if node != bad)


def test_a_signal_ends_it_with_its_processes_on_all_nodes(cluster: Cluster, jobs: Jobs, tmp_path: Path) -> None:
    slow = tmp_path / "slow_python"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    command = (*PREFLIGHT, "--only=versions", f"--python={slow}", "--time-limit=120", "--json", "--nodes=2", "--", "-Q")
    with subprocess.Popen(
        command, env={**os.environ, **cluster.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "on each node" in line:
                break
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, _report(out)["sentence"]) == (3, "interrupted")
    wait_until(lambda: not any(_of_nodes(cluster)), "a process of preflight lives on", PATIENCE_S)


def _of_nodes(cluster: Cluster) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = "slurm_resilience.preflight.node" in process.cmdline()
            if ours and process.environ().get("SLURMD_NODENAME") in cluster.node_names:
                yield process
