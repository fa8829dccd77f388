"""Every way an agent and what it started can end, with real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from slurm_resilience.agent.rank_processes import lost_rank
from slurm_resilience.agent.runtime import folder_name
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.process_identity import Identity
from slurm_resilience.signals.runtime_folder import RankPage, RankPhase
from tests.faults.agent_scene import PATIENCE_S, REPOSITORY, AgentScene, scene, wait_until

__all__ = ["scene"]


def test_a_command_that_ends_well_is_finished(scene: AgentScene):
    record = scene.end(scene.start(("true",)), Outcome.FINISHED, 0)
    assert record.command_code == 0
    assert record.ended_s is not None
    assert record.ended_s >= record.started_s


def test_a_command_that_fails_leaves_its_own_code(scene: AgentScene):
    assert scene.end(scene.start(("sh", "-c", "exit 3")), Outcome.FAILED, 3).command_code == 3


def test_a_command_that_is_killed_leaves_the_shells_code_for_it(scene: AgentScene):
    scene.end(scene.start(("sh", "-c", "kill -9 $$")), Outcome.FAILED, 137)


def test_a_command_that_does_not_exist_was_not_started(scene: AgentScene):
    record = scene.end(scene.start(("no-such-program",)), Outcome.NOT_STARTED, 127)
    assert "no-such-program" in str(record.why)


def test_a_plan_that_is_missing_is_one_sentence_and_a_code(scene: AgentScene):
    argv = [sys.executable, "-m", "slurm_resilience.agent", str(scene.folder / "nowhere.json")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 78
    assert len(done.stderr.splitlines()) == 1
    assert "nowhere.json" in done.stderr


def test_the_command_finds_its_run_in_its_environment(scene: AgentScene):
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    scene.end(scene.start((sys.executable, "-c", show), interface="lo"), Outcome.FINISHED, 0)
    found = json.loads(scene.said("out"))
    assert found["SLURM_RESILIENCE_RUN"] == str(scene.run.path)
    assert (found["SLURM_RESILIENCE_RUN_ID"], found["SLURM_RESILIENCE_ATTEMPT"]) == ("r1", "1")
    assert found["SLURM_RESILIENCE_RUNTIME"].startswith(str(scene.shm))
    assert (found["GLOO_SOCKET_IFNAME"], found["NCCL_SOCKET_IFNAME"]) == ("lo", "lo")


def test_what_a_command_left_behind_is_ended_with_it(scene: AgentScene):
    scene.end(scene.start(("sh", "-c", "setsid sleep 600 & setsid sleep 600 & exit 0")), Outcome.FINISHED, 0)


DAEMONS = """
import os, pathlib, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
pathlib.Path(os.environ["SCENE"], "ready").touch()
time.sleep(600)
"""


def test_when_the_agent_is_killed_its_guardian_ends_everything_and_then_itself(scene: AgentScene):
    agent = scene.start(scene.script(DAEMONS))
    scene.wait_for("ready")
    wait_until(lambda: len(scene.marked()) == 4, "the daemons")
    guardian = _guardian(agent.pid)
    assert os.getpgid(guardian) != os.getpgid(agent.pid)  # who kills the agent's group doesn't kill its guardian
    agent.kill()
    agent.wait()
    wait_until(lambda: scene.marked() == [], "the end of the tree")
    wait_until(lambda: not list(scene.shm.iterdir()), "the end of the runtime folder")
    wait_until(lambda: _gone(guardian), "the end of the guardian")
    assert scene.record().outcome is Outcome.RUNNING  # it could not say: that is what the record says


def _guardian(agent: int) -> int:
    """It renames itself some time after the agent has gone on."""
    wait_until(lambda: _guardians(agent), "the guardian's name")
    [guardian] = _guardians(agent)
    return guardian


def _guardians(agent: int) -> list[int]:
    born = [int(pid) for pid in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]
    return [pid for pid in born if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"slurm-resilience")]


def _gone(pid: int) -> bool:
    try:
        return b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True


def test_a_guardian_that_was_killed_is_not_missed(scene: AgentScene):
    agent = scene.start(scene.script(DAEMONS))
    scene.wait_for("ready")
    os.kill(_guardian(agent.pid), signal.SIGKILL)
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.STOPPED, 75)


def test_closed_pipes_do_not_end_the_agent(scene: AgentScene):
    reading, writing = os.pipe()
    agent = scene.start_talking_to(writing, writing, scene.script(DAEMONS))
    os.close(writing)
    scene.wait_for("ready")
    os.close(reading)  # srun is gone
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.STOPPED, 75)


def test_a_pipe_that_nobody_reads_does_not_stop_the_agent(scene: AgentScene):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    agent = scene.start_talking_to(writing, writing, scene.script(DAEMONS))
    scene.wait_for("ready")
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.STOPPED, 75)
    os.close(reading)
    os.close(writing)


def test_a_record_that_can_not_be_written_does_not_end_the_training(scene: AgentScene):
    agent = scene.start(("sh", "-c", "while [ ! -e $SCENE/enough ]; do sleep 0.05; done"))
    wait_until(lambda: scene.run.agent_record(1, 0).exists(), "the first record")
    shutil.rmtree(scene.run.path)
    scene.folder.joinpath("run").write_text("no folder any more")
    scene.folder.joinpath("enough").touch()
    assert agent.wait(PATIENCE_S) == 0
    assert "can't be written" in scene.complaints
    assert scene.marked() == []


def test_the_folder_of_a_dead_agent_is_removed_and_that_of_a_living_one_is_not(scene: AgentScene):
    me = Identity.of_this_process()
    for name, pid in (("dead", 2**22 + 1), ("living", me.pid)):
        folder = scene.shm / folder_name(name, 1, 0, None)
        folder.mkdir()
        folder.joinpath("owner.json").write_text(
            json.dumps(
                {
                    "host": me.host,
                    "boot_id": me.boot_id,
                    "pid": pid,
                    "started_ticks": me.started_ticks,
                    "pid_namespace": me.pid_namespace,
                }
            )
        )
    assert scene.start(("true",)).wait(PATIENCE_S) == 0
    assert [folder.name for folder in scene.shm.iterdir()] == [folder_name("living", 1, 0, None)]


def test_where_the_folder_in_memory_can_not_be_made_another_one_is_and_is_told(scene: AgentScene):
    agent = scene.start(("sh", "-c", "echo $SLURM_RESILIENCE_RUNTIME"), runtime_parent=str(scene.folder / "missing"))
    scene.end(agent, Outcome.FINISHED, 0)
    folder = Path(scene.said("out").strip())
    assert not folder.exists()
    assert str(folder) in scene.complaints
    assert "No such file or directory" in scene.complaints


def test_a_dead_supervisor_has_a_deputy(scene: AgentScene):
    me = Identity.of_this_process()
    python = scene.folder / "python"
    python.write_text('#!/bin/sh\necho "$@" > "$SCENE/deputy"; echo done\n')
    python.chmod(0o755)
    agent = scene.start(
        ("true",),
        can_requeue=True,
        python=str(python),
        supervisor_host=me.host,
        supervisor_boot_id="another boot",
        supervisor_pid=me.pid,
        supervisor_started_ticks=0,
    )
    scene.end(agent, Outcome.FINISHED, 0)
    assert scene.said("deputy").split() == ["-m", "slurm_resilience.supervisor.deputy", str(scene.run.path), "1"]
    assert "done" in scene.run.attempt(1).joinpath("deputy.log").read_text()


def test_a_supervisor_elsewhere_has_none_because_nobody_can_know(scene: AgentScene):
    agent = scene.start(("true",), can_requeue=True, python="/bin/false")
    scene.end(agent, Outcome.FINISHED, 0)
    assert not scene.run.attempt(1).joinpath("deputy.log").exists()


def test_the_record_tells_of_a_training_whose_agent_was_killed(scene: AgentScene):
    text = """
import os, pathlib, time
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase
with RankPageWriter(pathlib.Path(os.environ["SLURM_RESILIENCE_RUNTIME"]), 0) as mine:
    for step in range(100000):
        mine.write(RankPage(RankPhase.STEPPING, 0, 0, os.getpid(), step, -1, 5, time.monotonic()))
        time.sleep(0.01)
"""
    agent = scene.start(scene.script(text))
    wait_until(lambda: scene.run.agent_record(1, 0).exists(), "the first record")
    wait_until(lambda: scene.record().ranks, "the rank in the record")
    agent.kill()
    agent.wait()
    assert (scene.record().ranks[0].phase, scene.record().ranks[0].saved_step) == ("STEPPING", 5)
    wait_until(lambda: scene.marked() == [], "the end of the tree")


def test_a_rank_whose_death_its_launcher_overlooks_is_seen(scene: AgentScene):
    overlooking = "import os, time; pid = os.fork() or os._exit(1); print(pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", overlooking], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        page = RankPage(RankPhase.STEPPING, 5, 0, pid, 7, -1, -1, 0.0)
        wait_until(lambda: lost_rank(CommandKind.TORCHRUN, launcher.pid, (page,)) is not None, "its being seen")
        assert "rank 5" in str(lost_rank(CommandKind.TORCHRUN, launcher.pid, (page,)))
        done = replace(page, phase=RankPhase.STOPPED)
        assert lost_rank(CommandKind.TORCHRUN, launcher.pid, (done,)) is None
        launcher.kill()
    assert lost_rank(CommandKind.TORCHRUN, launcher.pid, (replace(page, phase=RankPhase.FAILED),)) is not None
