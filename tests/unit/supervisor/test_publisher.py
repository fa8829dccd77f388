"""The supervisor's care for its publisher, with small programs in the publisher's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointPublished, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.decision import Decision, Finish, Requeue
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.patience import FIRST_PAUSE_S, LONG_LIFE_S, TRIES_AFTERWARDS, TRIES_BESIDE
from slurm_resilience.supervisor.publisher import SAY_EVERY_S, SHIELDED, Publisher, publisher_argv
from slurm_resilience.supervisor.request import Publishing
from tests.unit.cli.told_runs import saved, started, tell

ROOT = Path(__file__).parents[3]
PATIENCE_S = 100.0
ENDS_WITH_A_WORD = ("sh", "-c", "echo; echo no such bucket; exit 3")
LIVES = ("sleep", "600")
OTHERS: set[int] = set()
"""Children of this process that were there before the test."""
DEAF = ("sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done")


class SetClock:
    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class Story(Notices):
    """Each wait is an event: time passes, and something may happen in it or be heard."""

    def __init__(self, clock: SetClock, *events: Callable[[], signal.Signals | None]) -> None:
        super().__init__()
        self._clock = clock
        self._events = list(events)
        self.waits = 0

    def wait(self, seconds: float) -> list[signal.Signals]:
        self.waits += 1
        self._clock.time_s += seconds
        heard = self._events.pop(0)() if self._events else None
        return [] if heard is None else [heard]


class Scene:
    def __init__(self, folder: Path) -> None:
        self.run = tell(folder / "run", started(1), saved(10, 1))
        self.run.attempt(1).mkdir(parents=True)
        self.clock = SetClock()
        self.said: list[str] = []
        self.publisher: Publisher | None = None

    @property
    def log(self) -> Path:
        return self.run.attempt(1) / "publish.log"

    def publish(self, *argv: str) -> Publisher:
        publishing = Publishing("/archive", None)
        self.publisher = Publisher(self.run, publishing, self.clock, os.environ, self.said.append, argv)
        return self.publisher

    def wait_ended(self) -> None:
        """Until the child is dead; nobody has asked for its code yet."""
        wait_until(lambda: all(state_of(pid) == "Z" for pid in children()), "the end of the publisher")

    def published(self) -> None:
        Journal(self.run).append(CheckpointPublished(checkpoint_id(10, 1), "/archive"))

    def end(self, story: Story, decision: Decision, ends_s: float | None = None, leave_s: float | None = None) -> None:
        assert self.publisher is not None
        self.publisher.end(1, decision, story, job_ends_s=ends_s, must_leave_s=leave_s)


def children() -> list[int]:
    """But for those of other tests, and the one that multiprocessing keeps to the end of a process."""
    return [pid for pid in all_children() if pid not in OTHERS and not is_pythons_own(pid)]


def all_children() -> list[int]:
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def is_pythons_own(pid: int) -> bool:
    return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()


def state_of(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


def wait_until(happened: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _others() -> None:
    OTHERS.clear()
    OTHERS.update(all_children())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    found = Scene(tmp_path)
    yield found
    if found.publisher is not None:
        found.end(Story(found.clock), Requeue(""), leave_s=found.clock.time_s)
    assert children() == []


def test_the_command_is_the_one_that_a_person_would_type(scene: Scene) -> None:
    argv = publisher_argv(scene.run.path, Publishing("s3://b/{run}", "200MB/s"))
    assert argv[:3] == (sys.executable, "-m", "slurm_resilience.cli.main")
    assert argv[3:] == (
        *("checkpoints", "publish", str(scene.run.path), "--to", "s3://b/{run}", "--limit", "200MB/s"),
        *("--follow", "--no-progress"),
    )


def test_it_hears_nothing_of_a_stop_and_takes_no_cpu_from_the_ranks(scene: Scene) -> None:
    publisher = scene.publish(*LIVES)
    publisher.tend(1)
    (pid,) = children()
    wait_until(lambda: "sleep" in Path(f"/proc/{pid}/comm").read_text(), "its start")
    fields = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert int(fields["SigBlk"], 16) == sum(1 << (number - 1) for number in SHIELDED)
    assert int(fields["SigIgn"], 16) & 1 << (signal.SIGINT - 1) == 0
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    assert os.getsid(pid) == pid  # a terminal's Ctrl-C is not for it
    for number in SHIELDED:
        os.kill(pid, number)
    publisher.tend(1)
    assert (children(), scene.said) == ([pid], [])


def test_one_that_dies_is_started_again_after_a_pause_and_not_before(scene: Scene) -> None:
    publisher = scene.publish(*ENDS_WITH_A_WORD)
    publisher.tend(1)
    scene.wait_ended()
    publisher.tend(1)
    scene.clock.sleep(FIRST_PAUSE_S - 1)
    publisher.tend(1)
    assert children() == []
    assert scene.said == ["publishing ended with 3 (no such bucket); it is started again, now in 10 s"]
    scene.clock.sleep(1)
    publisher.tend(1)
    assert len(children()) == 1


def die_often(scene: Scene, publisher: Publisher, times: int, lives_s: float) -> None:
    for _ in range(times):
        publisher.tend(1)
        scene.wait_ended()
        scene.clock.sleep(lives_s)
        publisher.tend(1)
        scene.clock.sleep(LONG_LIFE_S / 2)


def test_it_is_given_up_with_two_sentences_in_all(scene: Scene) -> None:
    publisher = scene.publish(*ENDS_WITH_A_WORD)
    die_often(scene, publisher, TRIES_BESIDE, lives_s=1)
    assert len(scene.log.read_text().splitlines()) == 2 * TRIES_BESIDE
    assert scene.said[1:] == ["publishing is given up after 8 tries, the last ended with 3 (no such bucket)"]
    scene.clock.sleep(10 * LONG_LIFE_S)
    publisher.tend(1)
    assert children() == []


def test_what_it_died_of_long_ago_is_forgiven(scene: Scene) -> None:
    die_often(scene, scene.publish(*ENDS_WITH_A_WORD), 2 * TRIES_BESIDE, lives_s=LONG_LIFE_S)
    assert len(scene.said) == 1


def test_one_that_ended_in_order_is_left_alone(scene: Scene) -> None:
    publisher = scene.publish("true")
    die_often(scene, publisher, 2, lives_s=1)
    assert (scene.said, children()) == ([], [])


def test_a_program_that_is_not_there_ends_nothing(scene: Scene) -> None:
    scene.publish("publisher-of-nowhere").tend(1)
    assert "publisher-of-nowhere" in scene.said[0]
    assert "it is started again" in scene.said[0]


def test_a_log_that_can_not_be_written_ends_nothing(scene: Scene) -> None:
    scene.log.mkdir()
    scene.publish(*LIVES).tend(1)
    assert "Is a directory" in scene.said[0]


def test_a_run_that_goes_on_waits_for_nothing(scene: Scene) -> None:
    scene.publish(*LIVES).tend(1)
    story = Story(scene.clock)
    scene.end(story, Requeue("preempted"))
    assert (children(), story.waits, scene.said) == ([], 0, [])


def test_one_that_does_not_end_is_killed(scene: Scene) -> None:
    scene.publish(*DEAF).tend(1)
    wait_until(lambda: scene.log.read_text() == "ready\n", "its start")
    scene.end(Story(scene.clock), Requeue("preempted"), leave_s=scene.clock.time_s + 1.5)
    assert children() == []


def test_a_finished_run_waits_until_the_manifest_says_that_everything_is_published(scene: Scene) -> None:
    scene.publish(*LIVES).tend(1)
    pauses = int(SAY_EVERY_S) // 2
    story = Story(scene.clock, *[lambda: signal.SIGCHLD] * pauses, scene.published)
    scene.end(story, Finish("done"))
    assert story.waits == pauses + 1
    waiting = "waiting for 1 checkpoint to be published"
    assert scene.said == [waiting, waiting, "published: 1 of 1 live checkpoints at /archive"]
    assert children() == []


def test_where_nothing_is_left_nothing_is_started(scene: Scene) -> None:
    scene.published()
    scene.publish("touch", str(scene.run.path / "started"))
    story = Story(scene.clock)
    scene.end(story, Finish("done"))
    assert story.waits == 0
    assert not (scene.run.path / "started").exists()


def test_one_that_was_paused_or_done_is_started_at_once_for_what_is_left(scene: Scene) -> None:
    publisher = scene.publish("sh", "-c", 'echo x; [ "$(wc -l < "$0")" = 1 ] && exit 1; exec sleep 600', str(scene.log))
    publisher.tend(1)
    scene.wait_ended()
    publisher.tend(1)

    def published_by_the_second() -> None:
        wait_until(lambda: len(scene.log.read_text().splitlines()) == 2, "the word of the second one")
        scene.published()

    scene.end(Story(scene.clock, published_by_the_second), Finish("done"))
    assert scene.log.read_text().splitlines() == ["x", "x"]


def test_a_finished_run_leaves_with_the_command_that_goes_on_when_its_time_is_up(scene: Scene) -> None:
    scene.publish(*LIVES).tend(1)
    ends_s = scene.clock.time_s + 100
    scene.end(Story(scene.clock), Finish("done"), ends_s=ends_s)
    assert scene.clock.time_s < ends_s
    assert scene.said[-1] == (
        "the job's time is up: not published yet: 1 checkpoint; to go on with it: "
        f"slurm-resilience checkpoints publish {scene.run.path} --to /archive"
    )
    assert children() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_whoever_signals_ends_the_wait(scene: Scene, number: signal.Signals) -> None:
    scene.publish(*LIVES).tend(1)
    story = Story(scene.clock, lambda: number)
    scene.end(story, Finish("done"))
    assert story.waits == 1
    assert scene.said[-1].startswith(f"{number.name} came: not published yet: 1 checkpoint")


def test_a_finished_run_does_not_wait_for_what_never_works(scene: Scene) -> None:
    scene.publish(*ENDS_WITH_A_WORD)

    def ended() -> None:
        scene.wait_ended()

    scene.end(Story(scene.clock, *[ended] * 100), Finish("done"))
    assert len(scene.log.read_text().splitlines()) == 2 * TRIES_AFTERWARDS
    assert scene.said[-1].startswith("publishing fails: not published yet: 1 checkpoint")


def test_a_manifest_that_can_not_be_read_is_no_reason_to_leave(scene: Scene) -> None:
    scene.publish(*LIVES).tend(1)
    hidden = scene.run.path / "hidden"

    def back() -> None:
        hidden.rename(scene.run.journal)
        scene.published()

    scene.run.journal.rename(hidden)
    scene.end(Story(scene.clock, back), Finish("done"))
    assert scene.said[0] == "waiting for the checkpoints to be published"
    assert scene.said[-1].startswith("published: 1 of 1")


def test_it_never_outlives_its_supervisor(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.attempt(1).mkdir(parents=True)
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from slurm_resilience.clock import SystemClock\n"
        "from slurm_resilience.manifest.run_directory import RunDirectory\n"
        "from slurm_resilience.supervisor.publisher import Publisher\n"
        "from slurm_resilience.supervisor.request import Publishing\n"
        f"run, argv = RunDirectory(Path(sys.argv[1])), {DEAF!r}\n"
        "publisher = Publisher(run, Publishing('/a', None), SystemClock(), os.environ, print, argv)\n"
        "publisher.tend(1)\n"
        "print(publisher._child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    wait_until(lambda: (run.attempt(1) / "publish.log").read_text() == "ready\n", "the publisher's start")
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or state_of(pid) == "Z", "the publisher's end")
