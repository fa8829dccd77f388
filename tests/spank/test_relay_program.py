"""The relay as a process: what ranks, agents and the plugin see of it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from slurm_resilience.process_identity import Identity, Liveness, boot_id, liveness, pid_namespace, started_ticks
from slurm_resilience.signals.runtime_folder import PAGE_BYTES, RankPage, RankPageWriter, RankPhase, rank_pages
from slurm_resilience.signals.runtime_folder import StopPageReader as Reader
from slurm_resilience.signals.stop_request import StopReason
from tests.spank.conftest import CStopRequest
from tests.spank.relay_scene import PATIENCE_S, PROMISE_S, RelayScene, is_gone, wait_until


def _owner(folder: Path) -> Identity:
    return Identity(**json.loads((folder / "owner.json").read_text()))


def test_the_runtime_folder_is_as_the_agent_makes_it(scene: RelayScene) -> None:
    relay = scene.start(life="77_4-2", node_id=3)
    pid = relay.process.pid

    assert relay.folder == scene.shm / f"slurm-resilience-{os.getuid()}-relay-77_4-2-s0-n3"
    assert stat.S_IMODE(relay.folder.stat().st_mode) == 0o700
    assert {path.name for path in relay.folder.iterdir()} == {"owner.json", "stop", "rank-0", "rank-1"}
    for name in ("stop", "rank-0", "rank-1"):
        page = (relay.folder / name).stat()
        assert (page.st_size, stat.S_IMODE(page.st_mode)) == (PAGE_BYTES, 0o600)
        assert page.st_blocks * 512 >= PAGE_BYTES, "its memory is not reserved"
    ticks = started_ticks(pid)
    assert ticks is not None
    assert _owner(relay.folder) == Identity(os.uname().nodename, boot_id(), pid, ticks, pid_namespace())
    assert liveness(_owner(relay.folder)) is Liveness.ALIVE
    assert relay.asked() is None

    with RankPageWriter(relay.folder, 1) as of_rank:
        of_rank.write(RankPage(RankPhase.STEPPING, 5, 1, 4711, 10, -1, -1, 1.0))
    assert [rank.rank for rank in rank_pages(relay.folder)] == [5]
    assert relay.end() == 0
    assert list(scene.shm.iterdir()) == []
    assert relay.said == ""


def test_a_sigterm_that_waits_at_a_rank_becomes_a_stop_request_with_a_deadline(scene: RelayScene) -> None:
    relay = scene.start()
    ranks = [scene.rank(), scene.rank()]
    for local_id, rank in enumerate(ranks):
        relay.tell(local_id, rank.pid)

    before_s = time.monotonic()
    ranks[1].send_signal(signal.SIGTERM)
    request = relay.wait_asked()

    assert request.reason is StopReason.TERMINATION
    assert request.because == f"SIGTERM came to rank process {ranks[1].pid}"
    assert before_s <= request.requested_s <= time.monotonic()
    assert request.deadline_s == request.requested_s + PROMISE_S
    assert all(rank.poll() is None for rank in ranks)
    ranks[0].send_signal(signal.SIGTERM)  # Slurm sends it two or three times
    ranks[1].send_signal(signal.SIGTERM)
    relay.process.send_signal(signal.SIGTERM)
    time.sleep(0.6)
    assert relay.asked() == request
    assert relay.end() == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_warning_has_no_deadline_until_a_sigterm_comes(scene: RelayScene, number: signal.Signals) -> None:
    relay = scene.start()
    rank = scene.rank()
    relay.tell(0, rank.pid)

    rank.send_signal(number)
    warning = relay.wait_asked()
    assert (warning.reason, warning.deadline_s) == (StopReason.WARNING, math.inf)
    assert warning.because == f"{number.name} came to rank process {rank.pid}"

    rank.send_signal(signal.SIGTERM)
    wait_until(lambda: relay.asked() != warning, "a nearer deadline")
    request = relay.asked()
    assert request is not None
    assert (request.reason, request.because, request.requested_s) == (
        StopReason.WARNING,
        warning.because,
        warning.requested_s,
    )
    assert request.deadline_s <= time.monotonic() + PROMISE_S
    assert relay.end() == 0


def test_what_slurm_sends_to_every_process_of_the_step_is_heard_and_kills_no_relay(scene: RelayScene) -> None:
    relay = scene.start()
    for _ in range(500):
        for number in "TERM USR1 USR2 HUP INT QUIT PIPE ALRM TSTP TTIN TTOU CONT XCPU".split():
            relay.process.send_signal(signal.Signals[f"SIG{number}"])
    request = relay.wait_asked()
    assert request.because.endswith(f" came to the relay, process {relay.process.pid}")
    rank = scene.rank()
    relay.tell(0, rank.pid)
    rank.send_signal(signal.SIGTERM)
    wait_until(lambda: (asked := relay.asked()) and asked.deadline_s < math.inf, "a deadline")
    assert relay.end() == 0
    assert list(scene.shm.iterdir()) == []


def test_ranks_that_die_and_lines_that_make_no_sense_change_nothing(scene: RelayScene) -> None:
    relay = scene.start()
    dead, living = scene.rank(), scene.rank()
    relay.tell(0, dead.pid)
    relay.tell(7, living.pid)
    relay.tell(1, -1)
    assert relay.process.stdin is not None
    relay.process.stdin.write("nonsense\n" + "9" * 100_000 + "\n\n")
    relay.tell(1, living.pid)
    dead.kill()
    dead.wait()
    living.send_signal(signal.SIGUSR1)
    assert relay.wait_asked().because == f"SIGUSR1 came to rank process {living.pid}"
    assert relay.said.count("standard input is no") == 1
    assert relay.end() == 0


def test_a_standard_input_that_is_closed_at_once_leaves_nothing(scene: RelayScene) -> None:
    done = subprocess.run(
        scene.argv(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{scene.shm}/slurm-resilience-{os.getuid()}-relay-123-0-s0-n0\n"
    assert list(scene.shm.iterdir()) == []


def test_a_relay_whose_folder_nobody_hears_of_leaves(scene: RelayScene) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        scene.argv(), stdout=writes, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    os.close(writes)
    assert done.returncode == 1
    assert "nobody hears of the runtime folder: Broken pipe" in done.stderr
    assert list(scene.shm.iterdir()) == []


def test_a_relay_without_any_standard_file_touches_no_page(scene: RelayScene) -> None:
    script = '"$@" <&- >&- 2>&-; echo "left with $?"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *scene.argv()], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == "left with 0\n", "its standard input is /dev/null then: at its end"
    assert list(scene.shm.iterdir()) == []


def test_a_full_pipe_on_stderr_stops_nobody(scene: RelayScene) -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writes, b"x" * 65536)
    os.set_blocking(writes, True)
    process = subprocess.Popen(scene.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writes, text=True)
    scene.started.append(process)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().rstrip("\n"))
    process.send_signal(signal.SIGTERM)  # it would say so
    with Reader(folder) as page:
        wait_until(page.asked, "a stop request")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    os.close(reads)
    os.close(writes)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("--step=x", "--step=x: must be the number of a normal step"),
        ("--run=here", "--run=here: must be an absolute path"),
        ("--nonsense", "--nonsense: no such argument"),
    ],
)
def test_a_bad_argument_is_named_and_nothing_is_made(scene: RelayScene, bad: str, sentence: str) -> None:
    done = subprocess.run(scene.argv(bad), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"slurm-resilience-relay: {sentence}\n"
    assert list(scene.shm.iterdir()) == []


def test_a_stop_page_reads_whole_while_the_relay_writes_it(tmp_path: Path, relay_library: ctypes.CDLL) -> None:
    (tmp_path / "stop").write_bytes(bytes(PAGE_BYTES))
    descriptor = os.open(tmp_path / "stop", os.O_RDWR)
    requests = [CStopRequest(2, f"reason {n}".encode() + b"x" * (n % 190), float(n), n + 28.0) for n in range(1, 400)]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for request in requests:
                assert relay_library.stop_page_write(descriptor, ctypes.byref(request))

    writer = threading.Thread(target=write)
    with Reader(tmp_path) as page:
        assert page.read() is None
        writer.start()
        try:
            wait_until(page.asked, "a first request")
            for _ in range(20_000):
                read = page.read()
                assert read is not None
                assert read.reason is StopReason.TERMINATION
                assert read.deadline_s == read.requested_s + 28
                assert read.because.startswith(f"reason {read.requested_s:.0f}"), read
        finally:
            stop.set()
            writer.join()
            os.close(descriptor)


def test_a_killed_relay_takes_its_squeue_with_it(scene: RelayScene) -> None:
    scene.squeue('echo $$ > "$0.pid"; exec sleep 600')
    relay = scene.start("--ask-slurm")
    note = scene.home / "bin" / "squeue.pid"
    wait_until(lambda: note.exists() and note.read_text().strip(), "a question")
    relay.process.kill()
    relay.process.wait(PATIENCE_S)
    wait_until(lambda: is_gone(int(note.read_text())), "the end of squeue")
