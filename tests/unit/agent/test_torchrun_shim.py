"""What the shim changes in a torchrun, old or new; nothing in here needs torch."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.integrations import torchrun
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class OldContext:
    """PContext as torch 2.4 has it: it takes four signals and can't be told not to."""

    def __init__(self) -> None:
        self.subprocess_handlers = {0: "a rank"}
        self.closed_by: tuple[object, object] | None = None

    def start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, lambda number, frame: pytest.fail("torchrun's handler ran"))

    def close(self, death_sig: object = None, timeout: int = 30) -> None:
        self.closed_by = (death_sig, timeout)

    def pids(self) -> dict[int, int]:
        return {0: os.getpid()}


def changed_context() -> type[OldContext]:
    return type("Context", (OldContext,), {})


@pytest.mark.usefixtures("handlers")
def test_an_old_torchrun_does_not_keep_its_handlers():
    context = changed_context()
    torchrun._take_handlers_back(context)
    context().start()
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)


def test_an_option_is_only_used_where_torchrun_has_it():
    parser = argparse.ArgumentParser()
    assert not torchrun._knows_signals_to_handle(parser)
    parser.add_argument("--signals-to-handle", "--signals_to_handle", default="SIGTERM")
    assert torchrun._knows_signals_to_handle(parser)


@pytest.mark.parametrize("asked", [(), (signal.SIGTERM,), (signal.SIGTERM, 30)])
def test_ranks_are_ended_by_kill_whatever_torchrun_asks_for(asked, monkeypatch):
    monkeypatch.delenv("SLURM_RESILIENCE_RUNTIME", raising=False)
    context = changed_context()
    torchrun._end_ranks_by_kill(context)
    closed = context()
    closed.close(*asked)
    assert closed.closed_by == (signal.SIGKILL, torchrun.CLOSE_S)


@pytest.mark.parametrize(("phase", "waits"), [(RankPhase.SAVING, True), (RankPhase.STEPPING, False)])
def test_only_a_rank_that_is_saving_is_waited_for_and_not_for_ever(tmp_path: Path, phase, waits, monkeypatch):
    monkeypatch.setenv("SLURM_RESILIENCE_RUNTIME", str(tmp_path))
    monkeypatch.setenv(torchrun.SAVING_VARIABLE, "0.2")
    with RankPageWriter(tmp_path, 0) as page:
        page.write(RankPage(phase, 0, 0, os.getpid(), 1, -1, -1, 0.0))
        began_s = time.monotonic()
        torchrun._wait_for_savers({os.getpid()})
        assert (time.monotonic() - began_s >= 0.2) == waits


def test_this_torch_has_what_the_shim_reaches_for():
    pytest.importorskip("torch")
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import PContext, SubprocessContext
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    assert callable(PContext.close)
    assert callable(PContext.start)
    assert "subprocess_handlers" in SubprocessContext.__init__.__code__.co_names
    assert callable(SubprocessContext.pids)
    assert callable(ChildFailedError.get_first_failure)
    assert callable(run.main)
    assert callable(run.get_args_parser)
