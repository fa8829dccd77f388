"""A checkpoint that is being written outlives its ranks, for as long as there is time."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from slurm_resilience.manifest.agent_record import Outcome
from tests.faults.agent_scene import LONG, PATIENCE_S, AgentScene, scene

__all__ = ["scene"]

WRITER = """
import os, subprocess, sys, time
from pathlib import Path
from slurm_resilience.signals.writer_page import WriterPage
scene, runtime = Path(os.environ["SCENE"]), Path(os.environ["SLURM_RESILIENCE_RUNTIME"])
if len(sys.argv) > 1:
    with WriterPage(runtime, 0) as page:
        page.busy(on=True)
        (scene / "writing").write_text("begun")
        while not (scene / "may-finish").exists():
            time.sleep(0.01)
        (scene / "written").write_text("whole")
        page.busy(on=False)
    time.sleep(600)
subprocess.Popen([sys.executable, __file__, "writer"], start_new_session=True)
while not (scene / "writing").exists():
    time.sleep(0.01)
"""


def test_what_a_failed_command_s_writer_has_in_hand_is_finished_and_nothing_else(scene: AgentScene):
    agent = scene.start(scene.script(WRITER + "sys.exit(3)"))
    scene.wait_for("err", "1 of the ranks' writers finish their checkpoint")
    (scene.folder / "may-finish").touch()
    scene.end(agent, Outcome.FAILED, 3)
    assert scene.said("written") == "whole"


def test_a_writer_is_not_killed_with_the_ranks_at_the_deadline_of_a_stop(scene: AgentScene):
    hanging = WRITER + "\nimport signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    agent = scene.start(scene.script(hanging), times=replace(LONG, after_termination_s=1))
    scene.wait_for("writing")
    os.kill(agent.pid, signal.SIGTERM)
    scene.wait_for("err", "writers finish")
    (scene.folder / "may-finish").touch()
    assert agent.wait(PATIENCE_S) != 0
    assert "killing" in scene.complaints


def test_a_writer_that_does_not_come_to_an_end_is_killed_when_sigterm_s_time_is_over(scene: AgentScene):
    agent = scene.start(scene.script(WRITER + "sys.exit(3)"), times=replace(LONG, after_termination_s=1))
    scene.wait_for("err", "writers finish")
    os.kill(agent.pid, signal.SIGTERM)
    scene.end(agent, Outcome.FAILED, 3)
    assert scene.said("written") == ""
    assert "the last one counts" in scene.complaints
