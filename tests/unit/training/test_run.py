# ruff: noqa: PT012 - a whole training stands in the block that has to raise
"""One rank, bare mode, real files: what a training sees of a run."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import CheckpointMismatch, CheckpointUnsupported, ConfigurationError, RunOwned
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import SaveReason
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import RankPhase, rank_pages
from slurm_resilience.signals.stop_request import StopReason, StopRequest
from slurm_resilience.training import Stopped, open_run
from slurm_resilience.training.environment import read_environment
from slurm_resilience.training.opening import script_name
from slurm_resilience.training.pace import PaceSettings
from slurm_resilience.training.rhythm import SaveRhythm
from slurm_resilience.training.run import Run
from slurm_resilience.training.savers import SnapshotSettings
from slurm_resilience.training.settings import RunSettings
from tests.unit.training.fakes import FakeClock
from tests.unit.training.relay_folder import relay_folder


class Weight:
    """Anything with a tensor."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.weight.copy_(state["weight"])


def chain_of(run: Path) -> Chain:
    return Chain.of(Journal(RunDirectory(run)).read())


def open_here(tmp_path: Path, **options: Any) -> Run:
    return open_run(run_dir=tmp_path / "run", **options)


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SLURM", "TORCHELASTIC")) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)


def test_a_signal_stops_after_the_step_with_a_checkpoint_and_the_next_start_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []
    after_the_loop = False
    with pytest.raises(Stopped) as stopped, open_here(tmp_path) as run:
        first_id = run.run_id
        for step in run.steps(10):
            seen.append(step)
            if step == 4:
                os.kill(os.getpid(), signal.SIGUSR1)
        after_the_loop = True
    assert stopped.value.code == 0
    assert not after_the_loop
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    chain = chain_of(tmp_path / "run")
    assert [(c.committed.step, c.committed.reason) for c in chain.checkpoints] == [(5, SaveReason.STOP)]
    assert not chain.finished

    with open_here(tmp_path) as run:
        assert (run.run_id, run.attempt) == (first_id, 2)
        for step in run.steps(10):
            assert run.step == step
            seen.append(step)
        assert run.resumed_from == "step-0000000005.a1"
    assert seen == list(range(10))
    assert chain_of(tmp_path / "run").finished


def test_stopped_passes_through_except_exception() -> None:
    assert not issubclass(Stopped, Exception)


def test_a_signal_in_the_last_step_saves_and_lets_the_training_finish(tmp_path: Path) -> None:
    with open_here(tmp_path) as run:
        for epoch in run.epochs(2):
            for item in run.batches([1, 2, 3]):
                if (epoch, item) == (1, 3):
                    os.kill(os.getpid(), signal.SIGTERM)
    chain = chain_of(tmp_path / "run")
    assert chain.finished
    saved = [(c.committed.step, c.committed.reason) for c in chain.checkpoints]
    assert saved == [(6, SaveReason.STOP), (6, SaveReason.FINAL)]


def test_the_handlers_are_gone_after_a_run_and_foreign_ones_stay(tmp_path: Path) -> None:
    def mine(number: int, frame: Any) -> None: ...

    before = signal.signal(signal.SIGUSR2, mine)
    try:
        with open_here(tmp_path) as run:
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            assert signal.getsignal(signal.SIGUSR2) is mine
            assert not run.should_stop()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_saves_come_every_so_many_steps_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    with open_here(tmp_path, save_every_steps=2, keep_last=2) as run:
        for _ in run.steps(7):
            pass
    chain = chain_of(tmp_path / "run")
    assert [c.committed.step for c in chain.checkpoints] == [2, 4, 6, 7]
    assert [c.committed.step for c in chain.loadable()] == [7, 6]
    assert chain.checkpoints[-1].committed.reason is SaveReason.FINAL


def test_a_save_that_is_asked_for_comes_at_the_next_boundary(tmp_path: Path) -> None:
    with open_here(tmp_path) as run:
        for step in run.steps(6):
            if step == 2:
                run.save()
    assert [(c.committed.step, c.committed.reason) for c in chain_of(tmp_path / "run").checkpoints] == [
        (3, SaveReason.ASKED),
        (6, SaveReason.FINAL),
    ]


def test_notes_and_objects_come_back(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ZeroDivisionError), open_here(tmp_path, save_every_steps=1) as run:
        run.register(model=model)
        for step in run.steps(5):
            with torch.no_grad():
                model.weight.fill_(step)
            run.notes["best"] = {"step": step, "losses": [0.5] * step}
            if step == 3:
                raise ZeroDivisionError
    error = RunDirectory(tmp_path / "run").rank_error(1, 0).read_text()
    assert "ZeroDivisionError" in error

    fresh = torch.nn.Linear(2, 2)
    with open_here(tmp_path) as run:
        run.register(model=fresh)
        run.resume()
        assert run.step == 3
        assert run.notes == {"best": {"step": 2, "losses": [0.5, 0.5]}}
        assert torch.equal(fresh.weight, torch.full((2, 2), 2.0))
        assert list(run.steps(5)) == [3, 4]


def test_a_finished_run_has_nothing_to_do_and_a_longer_one_goes_on(tmp_path: Path) -> None:
    def epochs_of(count: int) -> list[int]:
        with open_here(tmp_path) as run:
            return [epoch for epoch in run.epochs(count) for _ in run.batches("ab")]

    assert epochs_of(2) == [0, 0, 1, 1]
    assert epochs_of(2) == []
    assert epochs_of(3) == [2, 2]


def test_a_training_that_was_left_early_on_purpose_is_finished(tmp_path: Path) -> None:
    def train() -> int:
        with open_here(tmp_path) as run:
            for epoch in run.epochs(5):
                for _ in run.batches(range(4)):
                    pass
                if epoch == 1:
                    break
            return run.step

    assert train() == 8
    assert train() == 8


@pytest.mark.parametrize("where", ["in the first section", "in the second"])
def test_what_happens_between_two_loops_of_an_epoch_happens_once(tmp_path: Path, where: str) -> None:
    class Counter:
        value = 0

        def state_dict(self) -> dict[str, int]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.value = state["value"]

    def train(crash: bool) -> tuple[int, list[str]]:
        counter, seen = Counter(), []
        with open_here(tmp_path, save_every_steps=1) as run:
            run.register(counter=counter)
            for epoch in run.epochs(2):
                for item in run.batches("abc"):
                    seen.append(item)
                    if crash and where == "in the first section" and (epoch, item) == (1, "c"):
                        raise ZeroDivisionError
                counter.value += 1
                for item in run.batches("xy"):
                    seen.append(item)
                    if crash and where == "in the second" and (epoch, item) == (1, "y"):
                        raise ZeroDivisionError
        return counter.value, seen

    with pytest.raises(ZeroDivisionError):
        train(crash=True)
    value, seen = train(crash=False)
    assert value == 2
    assert seen == (["c", "x", "y"] if where == "in the first section" else ["y"])


def test_what_can_not_be_saved_is_said_at_the_first_step(tmp_path: Path) -> None:
    class Strange:
        def state_dict(self) -> dict[str, Any]:
            return {"stream": iter([])}

        def load_state_dict(self, state: Any) -> None: ...

    with pytest.raises(CheckpointUnsupported, match="objects/strange/stream"), open_here(tmp_path) as run:
        run.register(strange=Strange())
        for _ in run.steps(3):
            pytest.fail("no step must be taken")


def test_shapes_that_have_changed_are_named(tmp_path: Path) -> None:
    with open_here(tmp_path) as run:
        run.register(model=torch.nn.Linear(2, 2))
        list(run.steps(1))
    with pytest.raises(CheckpointMismatch, match="model doesn't take its state from step-"), open_here(tmp_path) as run:
        run.register(model=torch.nn.Linear(3, 2))
        list(run.steps(2))


@pytest.mark.parametrize("wrapped_first", [True, False])
def test_a_wrapper_that_came_or_went_is_named(tmp_path: Path, wrapped_first: bool) -> None:
    bare = torch.nn.Linear(2, 2)
    wrapped = torch.nn.Module()
    wrapped.add_module("module", bare)
    first, second = (wrapped, bare) if wrapped_first else (bare, wrapped)
    with open_here(tmp_path) as run:
        run.register(model=first)
        list(run.steps(1))
    with pytest.raises(CheckpointMismatch, match="only DistributedDataParallel makes the"), open_here(tmp_path) as run:
        run.register(model=second)
        list(run.steps(2))


def test_a_run_is_called_like_its_script_or_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for argument, name in (("src/train.py", "train"), ("/x/trainer/__main__.py", "trainer"), ("-c", "run")):
        monkeypatch.setattr(sys, "argv", [argument])
        assert script_name() == name


def test_mistakes_are_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="keep_last is 0"):
        open_run(keep_last=0)
    for options in (
        {"if_still_saving": "Skip"},
        {"save_every_steps": 2.5},
        {"save_every_steps": "10"},
        {"save_every_minutes": "5"},
        {"metric_mode": "maximum"},
    ):
        (name,) = options
        with pytest.raises(ConfigurationError, match=f"^{name} is .*: (give|it is) "):
            open_run(**options)
    with open_here(tmp_path) as run:
        with pytest.raises(ConfigurationError, match=r"keep plain values in run\.notes"):
            run.register(best=0.5)
        run.resume()
        with pytest.raises(ConfigurationError, match="before the training loop starts"):
            run.register(model=torch.nn.Linear(1, 1))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigurationError, match=r"has started 2 ranks .* but torch"), open_here(tmp_path) as run:
        list(run.steps(1))


def test_a_run_that_somebody_else_works_on_is_left_alone(tmp_path: Path) -> None:
    with open_here(tmp_path), pytest.raises(RunOwned), open_here(tmp_path):
        pytest.fail("two at once")


def test_every_step_saved_by_minutes_is_saved_by_rank_0_s_clock(tmp_path: Path) -> None:
    environment = read_environment({})
    rhythm = SaveRhythm(every_s=1e-9, every_steps=None)
    with Run(
        tmp_path / "run",
        environment,
        RunSettings(rhythm, Policy(9), snapshots=SnapshotSettings("never")),
        SystemClock(),
    ) as run:
        list(run.steps(3))
    assert [c.committed.step for c in chain_of(tmp_path / "run").checkpoints] == [0, 1, 2, 3, 3]


def test_saves_in_the_background_hold_the_state_of_their_step(tmp_path: Path) -> None:
    weight = torch.zeros(50_000)
    thing = Weight(weight)
    with open_run(run_dir=tmp_path / "run", save_every_steps=2, save_every_minutes=None, keep_last=9) as run:
        run.register(thing=thing)
        for step in run.steps(7):
            weight.fill_(step + 1)
    store = Hdf5Store(tmp_path / "run")
    for checkpoint in chain_of(tmp_path / "run").checkpoints:
        committed = checkpoint.committed
        part = committed.parts[0]
        state = store.read_part(PartReceipt(part.rank, part.file, part.bytes, part.checksum))
        assert torch.equal(state["objects"]["thing"]["weight"], torch.full((50_000,), float(committed.step)))
        assert state["position"]["step"] == committed.step
        assert committed.stall_s is not None


@pytest.mark.parametrize(
    ("said", "known"),
    [(torch.tensor(0.5), 0.5), (np.float32(0.5), 0.5), (float("nan"), None), (torch.ones(2), None), ("best", None)],
)
def test_a_metric_is_kept_if_it_is_a_number_and_costs_no_checkpoint_if_it_is_none(
    tmp_path: Path, said: Any, known: float | None
) -> None:
    with open_run(run_dir=tmp_path / "run", save_every_steps=1, save_every_minutes=None, keep_last=9) as run:
        for _ in run.steps(2):
            run.metric = said
    assert [each.committed.metric for each in chain_of(tmp_path / "run").checkpoints] == [known] * 3


def test_a_snapshot_that_can_not_be_handed_over_is_a_failed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = WriterProcess.submit
    submitted: list[Taken] = []

    def no_descriptor_left(writer: WriterProcess, taken: Taken) -> None:
        submitted.append(taken)
        if len(submitted) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        original(writer, taken)

    monkeypatch.setattr(WriterProcess, "submit", no_descriptor_left)
    with open_run(run_dir=tmp_path / "run", save_every_steps=1, save_every_minutes=None, keep_last=9) as run:
        list(run.steps(3))
    chain = chain_of(tmp_path / "run")
    assert [failed.step for failed in chain.attempts[0].saves_failed] == [1]
    assert [each.committed.step for each in chain.checkpoints] == [2, 3, 3]


def test_a_save_that_is_still_in_flight_is_waited_for_or_the_next_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, settings, expected in (
        ("wait", SnapshotSettings(), [1, 2, 3, 4, 5, 6, 6]),
        ("skip", SnapshotSettings(wait=False), None),
    ):
        rhythm = SaveRhythm(every_s=None, every_steps=1)
        with Run(
            tmp_path / name,
            read_environment({}),
            RunSettings(rhythm, Policy(9), snapshots=settings),
            SystemClock(),
        ) as run:
            list(run.steps(6))
        steps = [c.committed.step for c in chain_of(tmp_path / name).checkpoints]
        if expected is not None:
            assert steps == expected
        else:
            assert len(steps) < 7
            assert steps[-1] == 6
    assert "no checkpoint of step 2, that of step 1 is not done yet" in capsys.readouterr().err


def test_what_changes_behind_the_last_step_is_in_the_final_checkpoint(tmp_path: Path) -> None:
    with open_run(run_dir=tmp_path / "run", save_every_steps=1) as run:
        for _ in run.steps(2):
            run.notes["seen"] = run.step
        run.notes["seen"] = "behind the last step"
    final = chain_of(tmp_path / "run").loadable()[0].committed
    assert (final.step, final.reason) == (2, SaveReason.FINAL)
    part = final.parts[0]
    receipt = PartReceipt(part.rank, part.file, part.bytes, part.checksum)
    assert Hdf5Store(tmp_path / "run").read_part(receipt)["notes"] == {"seen": "behind the last step"}


def test_where_the_program_names_no_folder_the_plugins_word_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_RESILIENCE_RUN", str(tmp_path / "theirs"))
    assert open_run().directory == tmp_path / "theirs"
    assert open_run(run_dir="mine").directory == tmp_path / "mine"
    monkeypatch.delenv("SLURM_RESILIENCE_RUN")
    assert open_run().directory.parent == tmp_path / "runs"


def test_a_run_with_a_relay_writes_its_page_tells_where_it_is_and_stops_when_the_relay_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESILIENCE_RELAY", str(tmp_path / "relay"))
    with relay_folder(tmp_path / "relay") as page:
        with pytest.raises(Stopped), open_here(tmp_path) as run:
            assert (tmp_path / "relay" / "run").read_text() == f"{tmp_path}/run\n"
            for step in run.steps(10):
                if step == 3:
                    page.write(StopRequest(StopReason.TERMINATION, "SIGTERM came", 0.0, time.monotonic() + 60))
                    left_s = run.seconds_left()
                    assert left_s is not None
                    assert 0 < left_s <= 60
        [told] = rank_pages(tmp_path / "relay")
    assert (told.phase, told.stopped_after_step, told.saved_step) == (RankPhase.STOPPED, 4, 4)
    assert [c.committed.step for c in chain_of(tmp_path / "run").checkpoints] == [4]


def test_a_rank_that_is_not_the_first_of_its_node_does_not_tell_the_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESILIENCE_RELAY", str(tmp_path / "relay"))
    monkeypatch.setenv("SLURM_LOCALID", "1")
    with relay_folder(tmp_path / "relay", tasks=2):
        with open_here(tmp_path):
            pass
        assert not (tmp_path / "relay" / "run").exists()
        assert [page.local_rank for page in rank_pages(tmp_path / "relay")] == [1]


def test_a_run_whose_relay_is_not_there_trains_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_RESILIENCE_RELAY", str(tmp_path / "relay"))
    with open_here(tmp_path) as run:
        list(run.steps(3))
    assert chain_of(tmp_path / "run").finished
    assert not (tmp_path / "relay").exists()
    assert capsys.readouterr().err.count("no relay in") == 1


def test_how_long_is_left_is_what_the_file_says_and_else_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_here(tmp_path) as run:
        assert run.seconds_left() is None
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1000))
    with open_here(tmp_path) as run:
        assert 900 < (run.seconds_left() or 0.0) <= 1001
    (tmp_path / "end").write_text(json.dumps({"end_s": time.time() + 500}))
    monkeypatch.setenv("SLURM_RESILIENCE_END_FILE", str(tmp_path / "end"))
    with open_here(tmp_path) as run:
        assert 400 < (run.seconds_left() or 0.0) <= 500


def test_a_save_comes_before_an_end_that_somebody_has_brought_nearer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESILIENCE_END_FILE", str(tmp_path / "end"))
    clock = FakeClock()
    (tmp_path / "end").write_text(json.dumps({"end_s": clock.now_s() + 1e6}))
    settings = RunSettings(SaveRhythm(3600.0, None), pace=PaceSettings(False), snapshots=SnapshotSettings("never"))
    with Run(tmp_path / "run", read_environment(), settings, clock) as run:
        for step in run.steps(6):
            if step == 1:
                clock.sleep(1000)
            if step == 2:
                (tmp_path / "nearer").write_text(json.dumps({"end_s": clock.now_s() + 40}))
                (tmp_path / "nearer").replace(tmp_path / "end")
                clock.sleep(12)
    saved = [(c.committed.step, c.committed.reason) for c in chain_of(tmp_path / "run").checkpoints]
    assert saved == [(3, SaveReason.PERIODIC), (6, SaveReason.FINAL)]
