"""Where torchrun counts the ranks (`--nproc-per-node=cpu`), the agent learns from them how many they are."""

from __future__ import annotations

import os
import signal

import pytest

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.manifest.agent_record import Outcome
from tests.faults.agent_scene import AgentScene, scene

__all__ = ["scene"]

pytest.importorskip("torch")

STOPS_WHEN_ASKED = """
import os, pathlib, time
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase, StopPageReader
scene, rank = pathlib.Path(os.environ["SCENE"]), int(os.environ["RANK"])
runtime = pathlib.Path(os.environ["SLURM_RESILIENCE_RUNTIME"])
with RankPageWriter(runtime, rank) as mine, StopPageReader(runtime) as stop:
    def say(phase, stopped): mine.write(RankPage(phase, rank, rank, os.getpid(), 7, stopped, -1, time.monotonic()))
    say(RankPhase.STEPPING, -1)
    (scene / f"stepping-{rank}").touch()
    while not stop.asked(): time.sleep(0.02)
    say(RankPhase.STOPPED, 7)
    time.sleep(1)
"""


def test_a_node_whose_ranks_torchrun_has_counted_stops_in_order(scene: AgentScene):
    agent = scene.start(scene.script(STOPS_WHEN_ASKED)[1:], kind=CommandKind.TORCHRUN, nproc_per_node="cpu")
    count = os.cpu_count() or 1
    for rank in range(count):
        scene.wait_for(f"stepping-{rank}")
    agent.send_signal(signal.SIGTERM)
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert len(record.ranks) == count
    assert f"all {count} ranks stopped after step 7" in scene.complaints
