"""The end of the job's time, as a relay learns it, tells it, and asks ranks to stop before it."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path

import pytest

from slurm_resilience.signals.stop_request import StopReason
from tests.faulty_fs.disk import FaultyDisk
from tests.faulty_fs.fixture import disk as disk  # noqa: PLC0414 fixtures are found by their names here
from tests.faulty_fs.fixture import faulty_disk as faulty_disk  # noqa: PLC0414
from tests.spank.relay_scene import PROMISE_S, Relay, RelayScene, is_gone, wait_until


def _end(relay: Relay) -> float | None:
    path = relay.folder / "end"
    return float(json.loads(path.read_text())["end_s"]) if path.exists() else None


def test_the_end_that_the_environment_names_is_told_before_the_folder_is(scene: RelayScene) -> None:
    end_s = int(time.time()) + 100_000
    relay = scene.start(SLURM_JOB_END_TIME=str(end_s))
    assert _end(relay) == end_s
    assert relay.asked() is None
    assert relay.end() == 0
    assert list(scene.shm.iterdir()) == []


def test_an_end_that_is_over_is_not_believed(scene: RelayScene) -> None:
    relay = scene.start(SLURM_JOB_END_TIME=str(int(time.time()) - 1000))
    time.sleep(0.6)
    assert _end(relay) is None
    assert relay.asked() is None


@pytest.mark.parametrize(("ahead_s", "lead"), [(600, ["--lead=700"]), (20, [])], ids=["asked", "by-default"])
def test_ranks_are_asked_to_stop_when_the_end_is_near(scene: RelayScene, ahead_s: int, lead: list[str]) -> None:
    start_s = int(time.time()) - 100_000
    end_s = int(time.time()) + ahead_s
    relay = scene.start(*lead, SLURM_JOB_START_TIME=str(start_s), SLURM_JOB_END_TIME=str(end_s))
    request = relay.wait_asked()
    assert request.reason is StopReason.TIME_LIMIT
    assert request.because.startswith("the job's time is over in ")
    assert request.deadline_s == pytest.approx(time.monotonic() + end_s - time.time() + PROMISE_S, abs=1)


def test_a_lead_longer_than_the_job_becomes_a_quarter_of_it(scene: RelayScene) -> None:
    relay = scene.start("--lead=9000", SLURM_JOB_END_TIME=str(int(time.time()) + 4000))
    wait_until(lambda: relay.said, "a word")
    assert "s before the end, not 9000 s: the job has" in relay.said
    assert relay.asked() is None


def test_a_warning_ends_with_the_job(scene: RelayScene) -> None:
    end_s = int(time.time()) + 5000
    relay = scene.start(SLURM_JOB_END_TIME=str(end_s))
    relay.process.send_signal(signal.SIGUSR1)
    request = relay.wait_asked()
    assert request.reason is StopReason.WARNING
    assert request.deadline_s == pytest.approx(time.monotonic() + end_s - time.time() + PROMISE_S, abs=1)


def test_a_warning_learns_of_an_end_that_is_known_later(scene: RelayScene) -> None:
    go = scene.home / "go"
    end_s = int(time.time()) + 5000
    scene.squeue(f"while [ ! -e {go} ]; do sleep 0.05; done; echo {end_s}")
    relay = scene.start("--ask-slurm")
    relay.process.send_signal(signal.SIGUSR1)
    assert relay.wait_asked().deadline_s == math.inf
    go.touch()
    wait_until(lambda: (asked := relay.asked()) and asked.deadline_s < math.inf, "a deadline")
    request = relay.asked()
    assert request is not None
    assert request.reason is StopReason.WARNING
    assert request.deadline_s == pytest.approx(time.monotonic() + end_s - time.time() + PROMISE_S, abs=1)


@pytest.mark.parametrize("known_by", ["argument", "file"])
def test_the_first_node_asks_slurm_and_tells_the_others(scene: RelayScene, known_by: str) -> None:
    run = scene.home / "run of mine"
    run.mkdir()
    end_s = int(time.time()) + 100_000
    scene.squeue(f'echo "$*|$SLURM_TIME_FORMAT|$SQUEUE_FORMAT" > {scene.home}/asked; echo {end_s}')
    arguments = [f"--run={run}"] if known_by == "argument" else []
    first = scene.start("--ask-slurm", *arguments, life="77_4-2", SQUEUE_FORMAT="%i", SLURM_TIME_FORMAT="relative")
    other = scene.start(*arguments, life="77_4-2", node_id=1)
    if known_by == "file":  # as the training library leaves it
        for relay in (first, other):
            (relay.folder / "run.new").write_text(f"{run}\n")
            (relay.folder / "run.new").replace(relay.folder / "run")

    wait_until(lambda: _end(first) == end_s, "the end on the first node")
    assert (scene.home / "asked").read_text() == "-h -j 77_4 -o %e|%s|\n"
    wait_until(lambda: _end(other) == end_s, "the end on the other node")
    told = run / "exit-notes" / "77_4-2" / "end.json"
    assert json.loads(told.read_text()) == {"end_s": end_s}
    assert [path.name for path in told.parent.iterdir()] == ["end.json"]
    assert first.end() == other.end() == 0


@pytest.mark.parametrize(
    "script", ["echo N/A", "echo Unknown", "exit 1", "yes", "kill -9 $$", "head -c 999 /dev/urandom"]
)
def test_what_makes_no_sense_of_squeue_changes_nothing(scene: RelayScene, script: str) -> None:
    scene.squeue(f"touch {scene.home}/asked; {script}")
    end_s = int(time.time()) + 100_000
    relay = scene.start("--ask-slurm", SLURM_JOB_END_TIME=str(end_s))
    wait_until((scene.home / "asked").exists, "a question")
    time.sleep(0.6)
    assert _end(relay) == end_s
    rank = scene.rank()
    relay.tell(0, rank.pid)
    rank.send_signal(signal.SIGTERM)
    assert relay.wait_asked().reason is StopReason.TERMINATION
    assert relay.end() == 0


def test_a_controller_that_hangs_delays_no_signal_and_no_end(scene: RelayScene) -> None:
    scene.squeue('echo $$ > "$0.pid"; trap "" TERM; while :; do sleep 1; done')
    relay = scene.start("--ask-slurm")
    note = scene.home / "bin" / "squeue.pid"
    wait_until(lambda: note.exists() and note.read_text().strip(), "a question")
    relay.process.send_signal(signal.SIGTERM)
    assert relay.wait_asked().reason is StopReason.TERMINATION
    assert relay.end() == 0
    wait_until(lambda: is_gone(int(note.read_text())), "the end of squeue")
    assert list(scene.shm.iterdir()) == []


def test_without_squeue_it_is_said_once(scene: RelayScene, tmp_path: Path) -> None:
    relay = scene.start("--ask-slurm", PATH=str(tmp_path / "nowhere"))
    wait_until(lambda: relay.said, "a word")
    assert relay.said.count("\n") == 1
    assert "there is no squeue on PATH" in relay.said
    assert relay.end() == 0


@pytest.mark.parametrize("node_id", [0, 1])
def test_a_run_on_a_disk_that_hangs_delays_no_signal_and_no_end(
    scene: RelayScene, disk: FaultyDisk, node_id: int
) -> None:
    run = disk.path / f"run-{node_id}"
    run.mkdir()
    fault = disk.fail("lookup", hang=True, times=0, where=f"run-{node_id}/exit-notes")
    scene.squeue(f"echo {int(time.time()) + 100_000}")
    relay = scene.start(*(["--ask-slurm"] if node_id == 0 else []), f"--run={run}", node_id=node_id)
    rank = scene.rank()
    relay.tell(0, rank.pid)
    wait_until(lambda: disk.fired(fault), "a call that hangs")
    rank.send_signal(signal.SIGTERM)
    assert relay.wait_asked().reason is StopReason.TERMINATION
    assert relay.end() == 0
    assert list(scene.shm.iterdir()) == []
