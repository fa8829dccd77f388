"""Ten runs at a time on one real cluster, each with faults of its own, drawn from a seed: what must hold for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec, Proctrack
from tests.slurm.fault_schedule import Fault, draw
from tests.slurm.jobs import Jobs
from tests.slurm.light_run import LightRun

BLOWS = 3
RUNS = 10


@pytest.fixture(params=["linuxproc", "cgroup"])
def wide_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two nodes a run, and some more for those that lose one."""
    proctrack = cast(Proctrack, request.param)
    if proctrack == "cgroup" and isinstance(answer := cgroup.probe(), cgroup.Unusable):
        pytest.skip(answer.why)
    with Cluster(ClusterSpec(proctrack=proctrack, nodes=2 * RUNS + 4, grace_s=8, kill_wait_s=6)) as up:
        yield up


def test_the_same_seed_draws_the_same_schedule_and_all_faults_are_drawn() -> None:
    assert draw(5, blows=BLOWS) == draw(5, blows=BLOWS)
    assert {blow.fault for seed in range(40) for blow in draw(seed, blows=BLOWS)} == set(Fault)


@pytest.mark.timeout(900)
def test_whatever_is_done_to_them_runs_go_on_where_they_were(wide_cluster: Cluster, tmp_path: Path) -> None:
    """SLURM_RESILIENCE_TEST_SEED moves to other schedules."""
    first = int(os.environ.get("SLURM_RESILIENCE_TEST_SEED", "0"))
    first += 0 if wide_cluster.spec.proctrack == "linuxproc" else RUNS
    runs = [LightRun(Jobs(wide_cluster, tmp_path), f"seed-{seed}") for seed in range(first, first + RUNS)]
    wrong: dict[str, BaseException] = {}

    def endure(number: int, run: LightRun) -> None:
        try:
            run.endure(draw(first + number, blows=BLOWS))
            run.check()
        except BaseException as error:  # noqa: BLE001  # told below, by the thread that pytest sees
            wrong[run.name] = error

    threads = [threading.Thread(target=endure, args=(number, run)) for number, run in enumerate(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, "\n\n".join(f"{name}: {error}" for name, error in wrong.items())
