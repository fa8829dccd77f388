"""Where a rank learns that it should stop, and what signals do to it meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.signals.runtime_folder import StopPageWriter
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from slurm_resilience.training.stop_source import PageStopSource, SignalStopSource
from tests.faults.fake_slurm import FakeClock

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with StopPageWriter(tmp_path):
        yield tmp_path


@pytest.mark.parametrize("number", SIGNALS)
def test_a_rank_that_is_told_by_the_page_does_not_die_of_a_signal(folder: Path, number: signal.Signals) -> None:
    source = PageStopSource(folder)
    source.open()
    os.kill(os.getpid(), number)
    assert not source.asked()  # the agent hears it too, and says so there
    source.close()
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_the_page_says_is_what_is_read(tmp_path: Path) -> None:
    with StopPageWriter(tmp_path) as writer:
        source = PageStopSource(tmp_path)
        source.open()
        request = StopRequest(StopReason.TERMINATION, "SIGTERM came", 1.0, 2.0)
        writer.write(request)
        assert source.asked()
        assert source.read() == request
        source.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_handler_of_the_users_own_stays(folder: Path, number: signal.Signals) -> None:
    heard: list[int] = []
    signal.signal(number, lambda came, _: heard.append(came))
    for source in (PageStopSource(folder), SignalStopSource(FakeClock())):
        source.open()
        os.kill(os.getpid(), number)
        assert not source.asked()
        source.close()
    assert heard == [number, number]


def test_without_anybody_else_the_first_signal_is_the_request() -> None:
    source = SignalStopSource(FakeClock(s=5.0))
    source.open()
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGTERM)
    request = source.read()
    source.close()
    assert request is not None
    assert request.reason is StopReason.WARNING


def test_in_a_thread_nothing_is_installed(folder: Path) -> None:
    source = PageStopSource(folder)
    thread = threading.Thread(target=source.open)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    source.close()
