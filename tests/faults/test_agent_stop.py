"""Every way to ask an agent to stop, with real processes and signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from slurm_resilience.launch.plan import CommandKind, StopTimes
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.signals.stop_request import StopReason
from tests.faults.agent_scene import LONG, PATIENCE_S, AgentScene, going_first, scene, wait_until

__all__ = ["scene"]

# A training as our library would see it: it reads the stop page, says STOPPED on its own page, and leaves with 0.
LIBRARY = """
import os, sys, time, pathlib, signal, multiprocessing
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase, StopPageReader
folder = pathlib.Path(os.environ["SLURM_RESILIENCE_RUNTIME"]); scene = pathlib.Path(os.environ["SCENE"])
local_rank = int(os.environ.get("LOCAL_RANK", 0))
with StopPageReader(folder) as stop, RankPageWriter(folder, local_rank) as mine:
    def say(phase, step, stopped=-1, saved=-1):
        mine.write(RankPage(phase, local_rank, local_rank, os.getpid(), step, stopped, saved, time.monotonic()))
    step = 0
    while not stop.asked():
        step += 1
        say(RankPhase.STEPPING, step)
        (scene / f"stepping-{local_rank}").write_text(str(step))
        time.sleep(0.01)
    say(RankPhase.SAVING, step)
    (scene / "reason").write_text(stop.read().reason.name)
    say(RankPhase.STOPPED, step, step, step)
"""

# A program that knows nothing of us, with children of its own that die of any signal.
FOREIGN = """
import os, signal, sys, time, pathlib, subprocess
scene = pathlib.Path(os.environ["SCENE"]); came = []
def heard(number, frame):
    with (scene / "heard").open("a") as file: file.write(signal.Signals(number).name + " ")
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2): signal.signal(number, heard)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(scene / "ready").touch()
while not (scene / "enough").exists(): time.sleep(0.02)
(scene / "worker").write_text(str(worker.poll()))
worker.kill()
"""


def started_library(scene: AgentScene, **changed: object) -> subprocess.Popen[bytes]:
    agent = scene.start(scene.script(LIBRARY), **changed)
    scene.wait_for("stepping-0")
    return agent


def test_three_terms_within_a_moment_are_one_request_and_the_rank_stops_in_order(scene: AgentScene):
    agent = started_library(scene)
    for _ in range(3):
        agent.send_signal(signal.SIGTERM)
        time.sleep(0.03)
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert record.stop_reason == "TERMINATION"
    assert {name for name, _ in record.signals} == {"SIGTERM"}
    [rank] = record.ranks
    assert (rank.phase, rank.stopped_after_step) == ("STOPPED", rank.saved_step)
    assert scene.complaints.count("asking the ranks to stop") == 1
    assert f"all 1 ranks stopped after step {rank.saved_step}" in scene.complaints


def test_a_file_system_that_does_not_answer_keeps_nobody_from_stopping(scene: AgentScene):
    agent = started_library(scene)
    order = scene.run.stop_order(1)
    os.mkfifo(order)  # who reads it waits for ever, as on a dead file server
    held: list[int] = []

    def clerk_reads_it() -> bool:
        """Nobody can open a pipe for writing, without waiting, before somebody else wants to read it."""
        with contextlib.suppress(OSError):
            held.append(os.open(order, os.O_WRONLY | os.O_NONBLOCK))
        return bool(held)

    wait_until(clerk_reads_it, "the clerk's look")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S) == 75
    os.close(held[0])
    assert "could not be written in time" in scene.complaints
    assert scene.record().outcome is Outcome.RUNNING
    assert scene.marked() == []


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGUSR1, StopReason.WARNING),
        (signal.SIGUSR2, StopReason.WARNING),
        (signal.SIGINT, StopReason.OPERATOR),
        (signal.SIGHUP, StopReason.TERMINATION),
    ],
)
def test_other_signals_ask_for_a_stop_too(scene: AgentScene, number: signal.Signals, reason: StopReason):
    agent = started_library(scene)
    agent.send_signal(signal.SIGCONT)  # Slurm's overture: it means nothing
    agent.send_signal(number)
    assert scene.end(agent, Outcome.STOPPED, 75).stop_reason == reason.name
    assert scene.said("reason") == reason.name


def test_a_touched_stop_file_asks_for_a_stop(scene: AgentScene):
    agent = started_library(scene)
    scene.run.stop_file.touch()
    assert scene.end(agent, Outcome.STOPPED, 75).stop_reason == "OPERATOR"


def test_the_supervisors_order_asks_for_a_stop_in_its_words(scene: AgentScene):
    agent = started_library(scene)
    order = {"reason": "PEER_FAILED", "because": "node 3 is gone", "seconds": 200}
    scene.run.stop_order(1).write_text(json.dumps(order))
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert (record.stop_reason, record.stop_because) == ("PEER_FAILED", "node 3 is gone")


def test_an_order_that_nobody_understands_is_told_and_harms_nothing(scene: AgentScene):
    agent = started_library(scene)
    scene.run.stop_order(1).write_text('{"reason": "MOON')
    wait_until(lambda: "can't be read" in scene.complaints, "the complaint")
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.STOPPED, 75)


def test_the_end_of_the_jobs_time_asks_for_a_stop_without_any_signal(scene: AgentScene):
    # On a busy machine the second is over before the rank's first step.
    agent = scene.start(scene.script(LIBRARY), end_s=time.time() + 1000, stop_before_end_s=999.0)
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert (record.stop_reason, record.signals) == ("TIME_LIMIT", ())


def test_a_signal_that_comes_while_the_agent_starts_up_is_not_lost(scene: AgentScene):
    agent = scene.start(("sleep", "600"))
    blocked = 1 << (signal.SIGTERM - 1)
    wait_until(lambda: _mask(agent.pid, "SigBlk") & blocked or _mask(agent.pid, "SigCgt") & blocked, "its shield")
    agent.send_signal(signal.SIGTERM)
    assert scene.end(agent, Outcome.STOPPED, 75).signals[0][0] == "SIGTERM"


def _mask(pid: int, name: str) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1], 16)


def test_a_task_that_knows_nothing_of_us_hears_the_signal_once_and_its_children_never(scene: AgentScene):
    agent = scene.start(scene.script(FOREIGN))
    scene.wait_for("ready")
    for _ in range(3):
        agent.send_signal(signal.SIGTERM)
    scene.wait_for("heard")
    time.sleep(0.5)  # for a second one, if there were one
    (scene.folder / "enough").touch()
    scene.end(agent, Outcome.STOPPED, 75)  # it left with 0: that doesn't mean that it finished
    assert (scene.said("heard"), scene.said("worker")) == ("SIGTERM ", "None")


def test_the_chosen_signal_is_what_a_task_hears_and_the_others_are_kept_from_it(scene: AgentScene):
    agent = scene.start(scene.script(FOREIGN), forward_signal="USR1")
    scene.wait_for("ready")
    agent.send_signal(signal.SIGTERM)
    scene.wait_for("heard")
    [command] = [pid for pid in scene.marked() if _mask(pid, "SigCgt") & (1 << (signal.SIGUSR1 - 1))]
    os.kill(command, signal.SIGTERM)  # as Slurm does where it signals every process
    os.kill(command, signal.SIGUSR2)
    time.sleep(0.3)
    (scene.folder / "enough").touch()
    scene.end(agent, Outcome.STOPPED, 75)
    assert scene.said("heard") == "SIGUSR1 "


def test_a_signal_that_slurm_sent_to_the_whole_tree_is_not_handed_on_again(scene: AgentScene):
    agent = scene.start(scene.script(FOREIGN))
    scene.wait_for("ready")
    _term_everybody(agent)
    scene.wait_for("heard")
    time.sleep(0.8)
    (scene.folder / "enough").touch()
    scene.end(agent, Outcome.STOPPED, 75)
    assert scene.said("heard") == "SIGTERM "


def _term_everybody(agent: subprocess.Popen[bytes]) -> None:
    """As proctrack/linuxproc does it: children and their children, then the leader. Some may just be leaving."""
    for pid in [*_family(agent.pid), agent.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _family(parent: int) -> list[int]:
    try:
        born = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:  # it has left meanwhile
        return []
    return [pid for child in born for pid in (*_family(child), child)]


def test_a_task_that_dies_of_slurms_signal_before_the_agent_hears_it_has_not_crashed(scene: AgentScene):
    agent = scene.start(("sh", "-c", 'echo $$ > "$SCENE/pid"; exec sleep 600'))
    scene.wait_for("pid", "\n")
    command = int(scene.said("pid"))
    [guardian] = [pid for pid in _family(agent.pid) if pid != command]
    os.kill(guardian, signal.SIGTERM)
    with going_first():  # the agent has asked for the command's code, and waits for a signal for a moment
        os.kill(command, signal.SIGTERM)
        while Path(f"/proc/{command}").exists():
            time.sleep(0.001)
        time.sleep(1.0)  # a busy node
        os.kill(agent.pid, signal.SIGTERM)
    assert scene.end(agent, Outcome.STOPPED, 75).command_code == 143


def test_a_shielded_tree_lives_through_what_slurm_sends_to_every_process(scene: AgentScene):
    text = LIBRARY.replace("    step = 0\n", "    step = 0\n    pool = multiprocessing.Pool(2); pool.map(abs, [1])\n")
    guarded = text.replace("say(RankPhase.SAVING, step)", "say(RankPhase.SAVING, step); pool.map(abs, [1, 2, 3])")
    agent = scene.start(scene.script(guarded + "    pool.terminate()\n"), forward_signal="USR2")
    scene.wait_for("stepping-0")
    for _ in range(2):
        _term_everybody(agent)
    scene.end(agent, Outcome.STOPPED, 75)


def test_what_has_not_stopped_at_the_deadline_is_killed_daemons_included(scene: AgentScene):
    stubborn = """
import os, subprocess, sys, time, pathlib, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for session in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if session == 2: os.execve("/bin/sleep", ["sleep", "600"], {})  # no marker left to find it by
            time.sleep(600)
        os._exit(0)
    os.wait()
pathlib.Path(os.environ["SCENE"], "ready").touch()
time.sleep(600)
"""
    agent = scene.start(scene.script(stubborn), times=StopTimes(1, 300, 1, 5))
    scene.wait_for("ready")
    family = _family(agent.pid)
    assert len(family) == 5  # the guardian, the program, three daemons that became the agent's own children
    agent.send_signal(signal.SIGTERM)
    record = scene.end(agent, Outcome.KILLED_AT_DEADLINE, 137)
    assert record.command_code == 137
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []


def test_a_kill_at_the_deadline_goes_on_from_the_step_that_was_saved(scene: AgentScene):
    hanging = LIBRARY.replace("say(RankPhase.STEPPING, step)", "say(RankPhase.STEPPING, step, saved=3)").replace(
        "    say(RankPhase.SAVING, step)", "    time.sleep(600)"
    )
    agent = scene.start(scene.script(hanging), times=StopTimes(1, 300, 1, 5))
    scene.wait_for("stepping-0")
    agent.send_signal(signal.SIGTERM)
    record = scene.end(agent, Outcome.KILLED_AT_DEADLINE, 75)
    assert "step 3" in str(record.why)


def test_a_rank_that_stopped_and_then_hangs_is_ended_after_its_time_to_leave(scene: AgentScene):
    agent = scene.start(scene.script(LIBRARY + "    time.sleep(600)\n"), times=LONG)
    scene.wait_for("stepping-0")
    agent.send_signal(signal.SIGUSR1)
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert record.command_code == 137


def test_a_program_that_finished_although_it_was_asked_to_stop_is_finished(scene: AgentScene):
    finished = LIBRARY.replace("say(RankPhase.STOPPED, step, step, step)", "say(RankPhase.FINISHED, step)")
    agent = scene.start(scene.script(finished))
    scene.wait_for("stepping-0")
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.FINISHED, 0)


def test_ranks_under_torchrun_are_asked_by_the_page_and_the_agent_is_not_torchruns_victim(scene: AgentScene):
    command = scene.script(LIBRARY)[1:]
    agent = scene.start(command, kind=CommandKind.TORCHRUN, nproc_per_node=2, times=StopTimes(300, 300, 300, 5))
    scene.wait_for("stepping-0")
    scene.wait_for("stepping-1")
    for _ in range(3):
        _term_everybody(agent)
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert [rank.phase for rank in record.ranks] == ["STOPPED", "STOPPED"]
    assert record.command_code == 0
