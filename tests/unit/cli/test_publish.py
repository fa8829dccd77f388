from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_resilience.checkpoint.tiers import fetching
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.publisher import Publisher
from slurm_resilience.cli.fetch import fetch
from slurm_resilience.cli.publish import publish
from slurm_resilience.cli.stop_signals import StopSignals
from slurm_resilience.errors import CheckpointDamaged as Damaged
from slurm_resilience.errors import CheckpointUnsupported
from slurm_resilience.manifest.chain import Chain, Checkpoint, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.publishing import committed_of
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointId,
    Part,
    RunFinished,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.unit.cli.told_runs import own, started, tell

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "h5py", "numpy", "xxhash")),
    reason="checkpoints are written with torch, h5py, numpy and xxhash",
)


def call(command: Any, *arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


def save(run: RunDirectory, step: int, *, ranks: int = 2) -> CheckpointCommitted:
    """A real checkpoint, and its line."""
    import torch

    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    name = checkpoint_id(step, 1)
    parts = []
    for rank in range(ranks):
        state = {"weight": torch.arange(3000.0) + rank + step, "step": step}
        receipt = Hdf5Store(run.path).write_part(name, rank=rank, state=state, attributes={"step": step})
        parts.append(Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum))
    record = CheckpointCommitted(name, step, 1, SaveReason.PERIODIC, ranks, tuple(parts), 0.1)
    Journal(run).append(record)
    return record


def known(run: RunDirectory) -> dict[int, Checkpoint]:
    return {each.committed.step: each for each in Chain.of(Journal(run).read()).checkpoints}


def whole(run: RunDirectory, record: CheckpointCommitted) -> bool:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.checkpoint.store import PartReceipt

    for part in record.parts:
        Hdf5Store(run.path).verify_part(PartReceipt(part.rank, part.file, part.bytes, part.checksum))
    return True


def forget(run: RunDirectory, record: CheckpointCommitted) -> None:
    Journal(run).append(CheckpointForgotten(record.checkpoint, "retention"))
    shutil.rmtree(run.checkpoints / record.checkpoint)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return tell(tmp_path / "run", started(1))


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://{tmp_path.name}/runs"
    return f"{tmp_path}/archive"


def test_what_is_live_is_published_the_newest_first_and_the_manifest_knows(run: RunDirectory, place: str) -> None:
    save(run, 10)
    save(run, 20)
    text = call(publish, run.path, "--to", place).output
    assert [line.split()[0] for line in text.splitlines()] == ["step-0000000020.a1", "step-0000000010.a1"]
    assert {step: each.published for step, each in known(run).items()} == {10: (place,), 20: (place,)}
    assert "nothing to publish" in call(publish, run.path, "--to", place).output


def test_a_published_checkpoint_is_loadable_again_after_the_run_directory_is_lost(
    run: RunDirectory, place: str
) -> None:
    save(run, 10)
    record = save(run, 20)
    call(publish, run.path, "--to", place)
    shutil.rmtree(run.path)
    value = json.loads(call(fetch, run.path, "--from", place, "--json").stdout)
    assert value == {"checkpoint": record.checkpoint, "step": 20, "fetched": True, "pinned": True}
    (checkpoint,) = Chain.of(Journal(run).read()).loadable()
    assert checkpoint.committed == record
    assert checkpoint.pinned == f"fetched from {place}"
    assert checkpoint.published == (place,)
    assert whole(run, record)
    text = call(fetch, run.path, "step-0000000010.a1", "--from", place, code=78).output
    assert "--other-run" in text
    call(fetch, run.path, "step-0000000010.a1", "--from", place, "--other-run", "--no-pin")
    assert known(run)[10].pinned is None


@pytest.mark.parametrize("fate", ["forgotten", "damaged"])
def test_a_checkpoint_that_is_lost_here_is_live_again_once_fetched(run: RunDirectory, place: str, fate: str) -> None:
    record = save(run, 10)
    call(publish, run.path, "--to", place)
    if fate == "forgotten":
        forget(run, record)
    else:
        (run.path / record.parts[0].file).write_bytes(b"rotten")
        Journal(run).append(CheckpointDamaged(record.checkpoint, 1, "rotten"))
    assert known(run)[10].state is not CheckpointState.LIVE
    assert "fetched and verified, and pinned" in call(fetch, run.path, "--from", place).output
    assert known(run)[10].state is CheckpointState.LIVE
    assert whole(run, record)
    assert "is live in" in call(fetch, run.path, "--from", place).output


def test_what_a_running_attempt_may_be_deleting_is_not_fetched_under_its_hands(run: RunDirectory, place: str) -> None:
    record = save(run, 10)
    call(publish, run.path, "--to", place)
    forget(run, record)
    own(run, 1)
    assert "may be deleting" in call(fetch, run.path, "--from", place, code=78).output


def test_a_forgotten_one_is_not_taken_in_once_an_attempt_has_begun_that_clears_away(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = save(run, 10)
    call(publish, run.path, "--to", tmp_path / "archive")
    forget(run, record)
    copy = fetching.fetch

    def slowly(*arguments: Any, **options: Any) -> None:
        copy(*arguments, **options)
        own(run, 1)

    monkeypatch.setattr(fetching, "fetch", slowly)
    assert "may be deleting" in call(fetch, run.path, "--from", tmp_path / "archive", code=78).output
    assert known(run)[10].state is CheckpointState.FORGOTTEN


def test_a_fetch_into_a_new_folder_that_was_broken_off_goes_on_with_the_same_command(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = save(run, 10)
    call(publish, run.path, "--to", tmp_path / "archive")
    new = RunDirectory(tmp_path / "new")
    with monkeypatch.context() as patch:
        patch.setattr(StopSignals, "asked", lambda _: True)
        text = call(fetch, new.path, "--from", tmp_path / "archive", code=1).output
    assert "the same command goes on" in text
    call(fetch, new.path, "--from", tmp_path / "archive")
    assert whole(new, record)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(run: RunDirectory, place: str, tmp_path: Path) -> None:
    save(run, 10)
    before = run.journal.read_bytes()
    assert "would publish step-0000000010.a1" in call(publish, run.path, "--to", place, "--dry-run").output
    value = json.loads(call(publish, run.path, "--to", place, "--dry-run", "--json").stdout)
    assert [each["checkpoint"] for each in value] == ["step-0000000010.a1"]
    assert run.journal.read_bytes() == before
    assert not (tmp_path / "archive").exists()
    assert "no checkpoint is published" in call(fetch, run.path, "--from", place, "--dry-run", code=78).output
    call(publish, run.path, "--to", place)
    assert call(fetch, run.path, "--from", place, "--dry-run").output == "step-0000000010.a1\n"


def test_only_those_named_or_the_newest_are_published(run: RunDirectory, tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(run, step)
    call(publish, run.path, "step-0000000010.a1", "--to", tmp_path / "archive")
    assert [step for step, each in known(run).items() if each.published] == [10]
    call(publish, run.path, "--to", tmp_path / "archive", "--keep", "1")
    assert [step for step, each in known(run).items() if each.published] == [10, 30]
    assert "no checkpoint step-7" in call(publish, run.path, "step-7", "--to", tmp_path / "x", code=78).output


def test_a_damaged_one_fails_by_name_and_the_others_are_published(run: RunDirectory, tmp_path: Path) -> None:
    save(run, 10)
    record = save(run, 20)
    path = run.path / record.parts[1].file
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)
    value = json.loads(call(publish, run.path, "--to", tmp_path / "archive", "--json", code=1).stdout)
    assert [(each["checkpoint"], each["result"]) for each in value] == [
        ("step-0000000020.a1", "failed"),
        ("step-0000000010.a1", "published"),
    ]
    assert "tensor weight has the checksum" in value[0]["why"]
    assert known(run)[20].published == ()


def test_following_ends_when_the_run_is_finished_and_all_is_published(run: RunDirectory, tmp_path: Path) -> None:
    save(run, 10)
    Journal(run).append(RunFinished(1))
    text = call(publish, run.path, "--to", tmp_path / "archive", "--follow", "--json").stdout
    assert [json.loads(line)["result"] for line in text.splitlines()] == ["published"]


def test_what_can_not_be_sent_is_tried_again_less_and_less_often_and_once_more_at_the_end(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = save(run, 10)
    (run.path / record.parts[0].file).write_bytes(b"rotten")
    time_s = 0.0

    def sleep(signals: StopSignals, seconds: float) -> None:
        nonlocal time_s
        time_s += seconds
        if time_s == 3600:
            Journal(run).append(RunFinished(1))

    monkeypatch.setattr(StopSignals, "sleep", sleep)
    monkeypatch.setattr(StopSignals, "monotonic_s", lambda _: time_s)
    text = call(publish, run.path, "--to", tmp_path / "archive", "--follow", "--json", code=1).stdout
    assert [json.loads(line)["result"] for line in text.splitlines()] == ["failed"] * 13


def test_one_that_is_committed_between_two_looks_is_published_too(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_send = Publisher.to_send

    def a_moment_later(publisher: Publisher, *, without: Sequence[str] = ()) -> list[str]:
        if not known(run):
            save(run, 10)
        return to_send(publisher, without=without)

    monkeypatch.setattr(Publisher, "to_send", a_moment_later)
    assert "step-0000000010.a1 is published" in call(publish, run.path, "--to", tmp_path / "archive").output


@pytest.mark.parametrize("follow", [False, True])
def test_sigterm_ends_it_after_the_block_and_the_same_command_goes_on(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    record = save(run, 10)
    with monkeypatch.context() as patch:
        real = FolderDepot.put

        def terminated(self: FolderDepot, *arguments: Any, **options: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            real(self, *arguments, **options)

        patch.setattr(FolderDepot, "put", terminated)
        options = ["--follow"] if follow else []
        result = call(publish, run.path, "--to", tmp_path / "archive", *options, code=0 if follow else 1)
        assert ("stopped; what was sent stays" in result.output) == (not follow)
    assert known(run)[10].published == ()
    call(publish, run.path, "--to", tmp_path / "archive")
    shutil.rmtree(run.checkpoints)
    assert known(run)[10].published
    forget_record = CheckpointForgotten(record.checkpoint, "lost")
    Journal(run).append(forget_record)
    call(fetch, run.path, "--from", tmp_path / "archive")
    assert whole(run, record)


def test_a_sleep_ends_when_a_signal_comes_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        assert not signals.asked()
        signals.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)
        signals.sleep(600)
        assert signals.asked()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_place_can_come_from_the_environment_with_the_run_filled_in(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run, 10, ranks=1)
    assert "where to publish is not said" in call(publish, run.path, code=78).output
    monkeypatch.setenv("SLURM_RESILIENCE_PUBLISH", f"{tmp_path}/archive/{{run}}")
    call(publish, run.path, "--progress")
    assert (tmp_path / "archive" / "night-shift" / "step-0000000010.a1" / "checkpoint.json").is_file()


def test_a_place_of_another_run_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    save(run, 10, ranks=1)
    call(publish, run.path, "--to", tmp_path / "archive")
    other = tell(tmp_path / "other", started(1))
    save(other, 10, ranks=1)
    assert "of another run" in call(publish, other.path, "--to", tmp_path / "archive", code=78).output


def test_a_limit_has_to_be_a_rate(run: RunDirectory, tmp_path: Path) -> None:
    save(run, 10, ranks=1)
    assert "is no rate" in call(publish, run.path, "--to", tmp_path / "a", "--limit", "fast", code=2).output
    call(publish, run.path, "--to", tmp_path / "archive", "--limit", "10GB/s")


def test_a_rotten_copy_is_not_taken_in(run: RunDirectory, tmp_path: Path) -> None:
    record = save(run, 10)
    call(publish, run.path, "--to", tmp_path / "archive")
    forget(run, record)
    path = tmp_path / "archive" / record.checkpoint / "rank-00001.h5"
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)
    assert "tensor weight has the checksum" in call(fetch, run.path, "--from", tmp_path / "archive", code=1).output
    assert known(run)[10].state is CheckpointState.FORGOTTEN


def test_borrowed_tensors_travel_with_the_part_that_borrows_them(run: RunDirectory, tmp_path: Path) -> None:
    import torch

    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.checkpoint.store import Borrowed

    store = Hdf5Store(run.path)
    name: CheckpointId = checkpoint_id(10, 1)
    shared, own_ = torch.arange(5000.0), torch.ones(2000)
    lender = store.write_part(name, rank=1, state={"shared": shared}, attributes={})
    (placed,) = store.head_of(lender).placed
    loan = {"shared": Borrowed("rank-00001.h5", placed.offset, placed.checksum)}
    borrower = store.write_part(name, rank=0, state={"shared": shared, "own": own_}, attributes={}, borrowed=loan)
    parts = tuple(Part(each.rank, each.file, each.bytes, each.checksum) for each in (borrower, lender))
    record = CheckpointCommitted(name, 10, 1, SaveReason.PERIODIC, 2, parts, 0.1)
    Journal(run).append(record)
    call(publish, run.path, "--to", tmp_path / "archive")
    forget(run, record)
    call(fetch, run.path, "--from", tmp_path / "archive")
    assert torch.equal(store.read_part(borrower)["shared"], shared)


def test_a_note_that_speaks_of_something_else_is_damage(run: RunDirectory, tmp_path: Path) -> None:
    from dataclasses import replace

    from slurm_resilience.checkpoint.tiers.fetching import read_published

    save(run, 10)
    call(publish, run.path, "--to", tmp_path / "archive")
    published = read_published(FolderDepot(tmp_path / "archive"), "step-0000000010.a1")
    committed_of(published, "here")
    for changed in (
        replace(published, line=published.line.replace("periodic", "finalist")),
        replace(published, checkpoint="step-0000000011.a1"),
        replace(published, files=published.files[:1]),
    ):
        with pytest.raises((Damaged, CheckpointUnsupported)):
            committed_of(changed, "here")
