"""torchrun in the agent's tree, with real ranks."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.agent.process_tree import children, variables
from slurm_resilience.launch.plan import CommandKind, StopTimes
from slurm_resilience.manifest.agent_record import Outcome
from tests.faults.agent_scene import LONG, PATIENCE_S, AgentScene, rendezvous, scene, wait_until
from tests.training.run_under_test import free_port

__all__ = ["scene"]

pytest.importorskip("torch")

MEET = """
import os, pathlib, signal, sys, torch, torch.distributed as dist
scene = pathlib.Path(os.environ["SCENE"])
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
blocked = sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
(scene / f"rank-{dist.get_rank()}").write_text(f"{dist.get_world_size()} {total.item()} {blocked}")
dist.destroy_process_group()
"""

# Ranks without torch: torchrun doesn't mind, and they start in a moment.
WAIT = """
import os, pathlib, signal, sys, time
scene, rank = pathlib.Path(os.environ["SCENE"]), os.environ["RANK"]
def heard(number, frame):
    with (scene / f"heard-{rank}").open("a") as file: file.write(signal.Signals(number).name + " ")
signal.signal(signal.SIGUSR1, heard)
if os.fork() == 0:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    time.sleep(600)
(scene / f"pid-{rank}.new").write_text(str(os.getpid()))
(scene / f"pid-{rank}.new").rename(scene / f"pid-{rank}")
while not (scene / "enough").exists(): time.sleep(0.02)
"""


def test_two_ranks_meet_over_a_static_rendezvous_with_slurms_signals_blocked(scene: AgentScene):
    agent = scene.start(
        scene.script(MEET)[1:],
        kind=CommandKind.TORCHRUN,
        nproc_per_node=2,
        rendezvous=rendezvous(free_port()),
        interface="lo",
        local_addr="127.0.0.1",
    )
    scene.end(agent, Outcome.FINISHED, 0)
    blocked = sorted(map(int, (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)))
    assert [scene.said(f"rank-{rank}") for rank in (0, 1)] == [f"2 3.0 {blocked}"] * 2


def test_a_rank_that_is_killed_ends_the_others_and_leaves_its_code(scene: AgentScene):
    # The ranks block SIGTERM, and this is how long torchrun would wait for them: nobody here does.
    agent = scene.start(
        scene.script(WAIT)[1:], kind=CommandKind.TORCHRUN, nproc_per_node=2, shutdown_timeout_s=10 * PATIENCE_S
    )
    for rank in (0, 1):
        scene.wait_for(f"pid-{rank}")
    os.kill(int(scene.said("pid-1")), signal.SIGKILL)
    record = scene.end(agent, Outcome.FAILED, 137)
    assert record.command_code == 137


def test_a_rank_that_is_saving_may_finish_when_another_one_dies(scene: AgentScene):
    text = """
import os, pathlib, sys, time
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase
scene, rank = pathlib.Path(os.environ["SCENE"]), int(os.environ["RANK"])
with RankPageWriter(pathlib.Path(os.environ["SLURM_RESILIENCE_RUNTIME"]), rank) as mine:
    def say(phase): mine.write(RankPage(phase, rank, rank, os.getpid(), 1, -1, -1, time.monotonic()))
    if rank == 1:
        while not (scene / "saving").exists(): time.sleep(0.02)
        say(RankPhase.FAILED)
        sys.exit(9)
    say(RankPhase.SAVING)
    (scene / "saving").touch()
    time.sleep(1.5)
    (scene / "saved").touch()
    say(RankPhase.STEPPING)
    time.sleep(600)
"""
    agent = scene.start(
        scene.script(text)[1:], kind=CommandKind.TORCHRUN, nproc_per_node=2, times=replace(LONG, peer_failed_s=60)
    )
    record = scene.end(agent, Outcome.FAILED, 9)
    assert (scene.folder / "saved").exists()
    assert "rank 1 failed" in str(record.why)


def test_a_torchrun_that_is_killed_takes_its_ranks_along(scene: AgentScene):
    agent = scene.start(scene.script(WAIT)[1:], kind=CommandKind.TORCHRUN, nproc_per_node=1)
    scene.wait_for("pid-0")
    os.kill(_torchrun(int(scene.said("pid-0"))), signal.SIGKILL)
    scene.end(agent, Outcome.FAILED, 137)


def _torchrun(rank: int) -> int:
    return int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])


def test_ranks_that_know_nothing_of_us_hear_the_chosen_signal_once_and_their_children_never(scene: AgentScene):
    agent = scene.start(scene.script(WAIT)[1:], kind=CommandKind.TORCHRUN, nproc_per_node=2, forward_signal="USR1")
    for rank in (0, 1):
        scene.wait_for(f"pid-{rank}")
    workers = [child.pid for rank in (0, 1) for child in children(int(scene.said(f"pid-{rank}")))]
    assert len(workers) == 2
    agent.send_signal(signal.SIGTERM)
    agent.send_signal(signal.SIGTERM)
    for rank in (0, 1):
        scene.wait_for(f"heard-{rank}")
    time.sleep(0.5)
    assert all(variables(pid) for pid in workers)  # alive
    os.kill(_torchrun(int(scene.said("pid-0"))), signal.SIGUSR1)  # as Slurm does where it signals every process
    (scene.folder / "enough").touch()
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert [scene.said(f"heard-{rank}") for rank in (0, 1)] == ["SIGUSR1 "] * 2
    assert record.command_code == 0


def test_a_torchrun_that_hangs_after_a_ranks_death_is_killed(scene: AgentScene, monkeypatch: pytest.MonkeyPatch):
    agent = scene.start(scene.script(WAIT)[1:], kind=CommandKind.TORCHRUN, times=StopTimes(2, 300, 1, 5))
    scene.wait_for("pid-0")
    rank = int(scene.said("pid-0"))
    os.kill(_torchrun(rank), signal.SIGSTOP)
    os.kill(rank, signal.SIGKILL)
    wait_until(lambda: b") Z" in Path(f"/proc/{rank}/stat").read_bytes(), "the rank's death")
    agent.send_signal(signal.SIGTERM)
    scene.end(agent, Outcome.KILLED_AT_DEADLINE, 137)
