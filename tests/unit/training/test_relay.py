"""A rank that hears by a relay, and by itself where there is none, or none any more."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.signals.stop_request import StopReason, StopRequest
from slurm_resilience.training.relay import LOOK_S, RelayStopSource
from slurm_resilience.training.stop_source import SIGNALS
from tests.faults.fake_slurm import FakeClock
from tests.unit.training.relay_folder import relay_folder

REQUEST = StopRequest(StopReason.TERMINATION, "SIGTERM came to rank process 4711", 1.0, 2.0)


@pytest.fixture(autouse=True)
def as_the_plugin_starts_a_rank() -> Iterator[None]:
    """With the three signals blocked, and nobody handling them."""
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    yield
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # what is pending is forgotten
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    """To this thread: others of this process, unlike those of a rank, were not started with the signals blocked."""
    signal.pthread_kill(threading.get_ident(), number)


def blocked() -> set[signal.Signals]:
    return {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())} & set(SIGNALS)


def test_what_the_relay_writes_is_the_request_and_signals_stay_blocked(tmp_path: Path) -> None:
    with relay_folder(tmp_path / "relay") as page:
        source = RelayStopSource(tmp_path / "relay", FakeClock())
        source.open()
        send(signal.SIGTERM)
        assert (source.there, source.asked(), source.read()) == (True, False, None)
        page.write(REQUEST)
        assert source.asked()
        assert source.read() == REQUEST
        assert blocked() == set(SIGNALS)
        source.close()


def test_the_relay_is_told_which_run_it_is(tmp_path: Path) -> None:
    with relay_folder(tmp_path / "relay"):
        source = RelayStopSource(tmp_path / "relay", FakeClock())
        source.open()
        source.tell_run(Path("/runs/r 1"))
        assert (tmp_path / "relay" / "run").read_text() == "/runs/r 1\n"
        assert not list((tmp_path / "relay").glob(".run*"))
        source.close()


def test_a_folder_that_is_not_there_is_said_once_and_the_rank_hears_for_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = RelayStopSource(tmp_path / "relay", FakeClock())
    send(signal.SIGTERM)  # it came before anybody listened
    source.open()
    source.tell_run(Path("/runs/r"))
    assert not source.there
    assert blocked() == set()
    assert source.asked()
    request = source.read()
    assert request is not None
    assert request.reason is StopReason.TERMINATION
    source.close()
    [line] = capsys.readouterr().err.splitlines()
    assert f"no relay in {tmp_path}/relay (No such file or directory): this rank listens to its own signals" in line


@pytest.mark.parametrize("ails", ["no owner", "torn owner", "no page", "short page", "owner is gone", "not ours"])
def test_a_folder_that_is_not_a_living_relays_of_ours_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ails: str
) -> None:
    folder = tmp_path / "relay"
    with relay_folder(folder, **({"started_ticks": 1} if ails == "owner is gone" else {})):
        match ails:
            case "no owner":
                (folder / "owner.json").unlink()
            case "torn owner":
                (folder / "owner.json").write_text("{")
            case "no page":
                (folder / "stop").unlink()
            case "short page":
                (folder / "stop").write_bytes(b"")
            case "not ours":
                monkeypatch.setattr(os, "getuid", lambda: 4711)
        source = RelayStopSource(folder, FakeClock())
        source.open()
        assert not source.there
        assert blocked() == set()
        source.close()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_relay_in_another_container_is_believed(tmp_path: Path) -> None:
    with relay_folder(tmp_path / "relay", pid_namespace=1, pid=1):
        source = RelayStopSource(tmp_path / "relay", FakeClock())
        source.open()
        assert source.there
        source.close()


def test_when_the_relay_goes_the_rank_hears_for_itself_from_then_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = FakeClock()
    with relay_folder(tmp_path / "relay"):
        source = RelayStopSource(tmp_path / "relay", clock)
        source.open()
        shutil.rmtree(tmp_path / "relay")
        send(signal.SIGUSR1)
        assert not source.asked()
        clock.s += LOOK_S
        assert source.asked()
        request = source.read()
        assert request is not None
        assert request.reason is StopReason.WARNING
        clock.s += LOOK_S
        assert source.asked()
        source.close()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_was_asked_before_the_relay_went_stands(tmp_path: Path) -> None:
    clock = FakeClock()
    with relay_folder(tmp_path / "relay") as page:
        source = RelayStopSource(tmp_path / "relay", clock)
        source.open()
        page.write(REQUEST)
        shutil.rmtree(tmp_path / "relay")
        clock.s += 10 * LOOK_S
        assert source.asked()
        assert source.read() == REQUEST
        source.close()
