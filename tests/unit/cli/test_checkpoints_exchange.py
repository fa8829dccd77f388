"""`checkpoints export` and `checkpoints import`: round trips through files of other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal, Writer
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointPinned,
    Line,
    Part,
    Record,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.resumption import STATE_FORMAT
from tests.unit.cli.test_checkpoints import call, save
from tests.unit.cli.told_runs import own, saved, started, tell

torch = pytest.importorskip("torch")
pytest.importorskip("h5py")
hdf5_store = pytest.importorskip("slurm_resilience.checkpoint.hdf5_store")


def objects() -> dict[str, Any]:
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def trained(path: Path) -> RunDirectory:
    """A run with one checkpoint at step 10, of two ranks, as a training saves it."""
    run = tell(path, started(1))
    name = checkpoint_id(10, 1)
    parts = []
    for rank in range(2):
        state = {
            "format": STATE_FORMAT,
            "objects": objects(),
            "position": {"step": 10, "epoch": 1, "section": 0, "item": 3, "total": 4},
            "random": {"torch": torch.get_rng_state()},
            "data": {},
            "gradient_buckets": {},
            "notes": {},
        }
        receipt = hdf5_store.Hdf5Store(run.path).write_part(name, rank=rank, state=state, attributes={"step": 10})
        parts.append(Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum))
    Journal(run).append(CheckpointCommitted(name, 10, 1, SaveReason.PERIODIC, 2, tuple(parts), 0.1))
    return run


def chain_of(path: Path) -> Chain:
    return Chain.of(Journal(RunDirectory(path)).read())


def loads(path: Path, rank: int = 0) -> dict[str, Any]:
    """The state that the next attempt would load."""
    from slurm_resilience.checkpoint.store import PartReceipt

    part = chain_of(path).loadable()[0].committed.parts[rank]
    receipt = PartReceipt(part.rank, part.file, part.bytes, part.checksum)
    state: dict[str, Any] = hdf5_store.Hdf5Store(path).read_part(receipt)
    return state


def same(a: Any, b: Any) -> bool:
    from slurm_resilience.checkpoint.compare import compare_states

    return not compare_states({"x": dict(a)}, {"x": dict(b)})


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_what_was_exported_can_be_imported_into_a_new_run(tmp_path: Path, form: str) -> None:
    run = trained(tmp_path / "a")
    text = call("export", run.path, "newest", "--to", tmp_path / "x", "--format", form, "--progress")
    assert "model, optimizer of step-0000000010.a1 are in" in text
    text = call("import", tmp_path / "b", "--from", tmp_path / "x", "--ranks=2")
    assert text.startswith("step-0000000010.a0.imported made from ")
    committed = chain_of(tmp_path / "b").loadable()[0].committed
    assert (committed.step, committed.reason, committed.world_size) == (10, SaveReason.IMPORTED, 2)
    for rank in range(2):
        state = loads(tmp_path / "b", rank)
        assert state["format"] == STATE_FORMAT
        assert (state["random"], state["data"], state["gradient_buckets"], state["notes"]) == (None, {}, {}, {})
        assert state["position"] == {"step": 10, "epoch": 1, "section": 0, "item": 0, "total": 0}
        for name, value in objects().items():
            assert same(state["objects"][name], value), name
    call("verify", tmp_path / "b")


def test_a_model_alone_goes_to_safetensors_and_back_under_any_name(tmp_path: Path) -> None:
    run = trained(tmp_path / "a")
    file = tmp_path / "model.safetensors"
    told = json.loads(call("export", run.path, "newest", "--object=model", "--rank=1", "--to", file, "--json"))
    assert (told["objects"], told["bytes"]) == (["model"], file.stat().st_size)
    assert "give --step" in call("import", tmp_path / "b", "--from", file, code=78)
    assert not (tmp_path / "b").exists()
    told = json.loads(
        call("import", tmp_path / "b", "--from", file, "--as", "net=.", "--step=0", "--epoch=4", "--json")
    )
    assert (told["objects"], told["step"], told["epoch"]) == (["net"], 0, 4)
    state = loads(tmp_path / "b")
    assert same(state["objects"]["net"], objects()["model"])
    assert state["position"] == {"step": 0, "epoch": 4, "section": 0, "item": 0, "total": 0}


def test_shards_are_put_together_when_exported(tmp_path: Path) -> None:
    from slurm_resilience.checkpoint.distributed.shard_notes import Layout, Mesh, ShardNote, to_state
    from slurm_resilience.checkpoint.exchange.safetensors_file import read_safetensors

    run = tell(tmp_path / "run", started(1))
    whole = torch.arange(8.0).reshape(4, 2)
    layout = Layout((4, 2), (2, 1), Mesh((2,), None, (0, 1)), ("S(0)",))
    name, parts = checkpoint_id(10, 1), []
    for rank in range(2):
        notes = to_state({"objects/model/w": ShardNote("float32", layout, layout.pieces_at((rank,)))})
        local = {"w": whole[2 * rank : 2 * rank + 2].clone()}
        state = {"format": STATE_FORMAT, "objects": {"model": local}, "shards": notes}
        receipt = hdf5_store.Hdf5Store(run.path).write_part(name, rank=rank, state=state, attributes={})
        parts.append(Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum))
    Journal(run).append(CheckpointCommitted(name, 10, 1, SaveReason.PERIODIC, 2, tuple(parts), 0.1))
    call("export", run.path, "newest", "--object=model", "--to", tmp_path / "x")
    assert torch.equal(read_safetensors(tmp_path / "x")[0]["w"], whole)


def test_a_lightning_checkpoint_becomes_one_of_an_existing_run(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    weights = {f"net.{name}": value for name, value in objects()["model"].items()}
    ckpt = {
        "pytorch-lightning_version": "2.4.0",
        "epoch": 2,
        "global_step": 300,
        "state_dict": weights,
        "optimizer_states": [objects()["optimizer"]],
        "lr_schedulers": [],
    }
    torch.save(ckpt, tmp_path / "last.ckpt")
    chosen = ("--as", "model=state_dict/net.", "--as", "optimizer=optimizer_states/0")
    text = call("import", run.path, "--from", tmp_path / "last.ckpt", *chosen)
    assert "(Lightning): model, optimizer" in text
    assert text.endswith("goes on at step 300, the beginning of epoch 2\n")
    state = loads(run.path)
    assert same(state["objects"]["model"], objects()["model"])
    assert same(state["objects"]["optimizer"], objects()["optimizer"])
    assert (state["position"]["step"], state["position"]["epoch"]) == (300, 2)


def test_without_epochs_the_position_is_behind_so_many_items_of_one_loop(tmp_path: Path) -> None:
    call("import", tmp_path / "run", "--from", plain_file(tmp_path / "x.pt"))
    assert loads(tmp_path / "run")["position"] == {"step": 5, "epoch": 0, "section": 0, "item": 5, "total": 0}


def plain_file(path: Path, step: int = 5) -> Path:
    torch.save({"model": objects()["model"], "step": step}, path)
    return path


def test_a_run_that_is_further_is_left_alone_unless_forced(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    file = plain_file(tmp_path / "x.pt")
    assert "would go on from step-0000000010.a1 (step 10)" in call("import", run.path, "--from", file, code=78)
    Journal(run).append(CheckpointPinned(checkpoint_id(10, 1), "mine"))
    assert "is pinned (mine)" in call("import", run.path, "--from", file, "--force", code=78)
    call("unpin", run.path, "newest")
    call("import", run.path, "--from", file, "--force")
    assert [(each.committed.step, each.state) for each in chain_of(run.path).checkpoints] == [
        (10, CheckpointState.FORGOTTEN),
        (5, CheckpointState.LIVE),
    ]


def test_a_second_import_of_one_step_has_a_name_of_its_own_and_loads(tmp_path: Path) -> None:
    file = plain_file(tmp_path / "x.pt")
    for name in ("imported", "imported.2", "imported.3"):
        told = json.loads(call("import", tmp_path / "run", "--from", file, "--json"))
        assert told["checkpoint"] == f"step-0000000005.a0.{name}"
        assert chain_of(tmp_path / "run").loadable()[0].committed.checkpoint == told["checkpoint"]


def test_a_run_that_somebody_works_on_or_that_is_finished_takes_no_import(tmp_path: Path) -> None:
    file = plain_file(tmp_path / "x.pt", step=50)
    run = trained(tmp_path / "a")
    own(run, 1)
    assert "belongs to a live attempt" in call("import", run.path, "--from", file, code=79)
    finished = tell(tmp_path / "b", started(1), saved(10, 1), TrainingFinished(1, 10))
    assert "is finished" in call("import", finished.path, "--from", file, code=78)


def test_what_cannot_be_told_apart_must_be_named(tmp_path: Path) -> None:
    torch.save({"generator": {"w": torch.ones(1)}, "n": 3}, tmp_path / "x.pt")
    new = tmp_path / "run"
    start = ("import", new, "--from", tmp_path / "x.pt", "--step=1")
    assert "isn't clear, it holds generator, n" in call(*start, code=78)
    assert "holds no critic: it has generator, n" in call(*start, "--as=model=critic", code=78)
    assert "n in " in call(*start, "--as=model=n", code=78)
    assert "write NAME=PATH" in call(*start, "--as=model", code=2)
    assert not new.exists()
    call(*start, "--as=model=generator")


def test_an_import_that_fails_leaves_no_checkpoint_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_resilience.errors import CheckpointUnavailable

    write = hdf5_store.Hdf5Store.write_part

    def full_at_the_second(self: Any, checkpoint: str, *, rank: int, **rest: Any) -> Any:
        if rank == 1:
            raise CheckpointUnavailable("No space left on device")
        return write(self, checkpoint, rank=rank, **rest)

    monkeypatch.setattr(hdf5_store.Hdf5Store, "write_part", full_at_the_second)
    file = plain_file(tmp_path / "x.pt")
    assert "No space left" in call("import", tmp_path / "run", "--from", file, "--ranks=2", code=1)
    assert chain_of(tmp_path / "run").checkpoints == ()
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_an_import_that_is_broken_off_behind_its_line_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Writer.append

    def interrupted(writer: Writer, *records: Record, fence: int | None = None) -> list[Line]:
        append(writer, *records, fence=fence)
        raise KeyboardInterrupt

    file = plain_file(tmp_path / "last.pt")
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "append", interrupted)
        call("import", tmp_path / "run", "--from", file, code=1)
    assert loads(tmp_path / "run")["position"]["step"] == 5


def test_a_part_that_no_training_wrote_is_exported_as_it_is(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    save(run, 20)
    call("export", run.path, "newest", "--to", tmp_path / "x.pt", "--format=torch")
    content = torch.load(tmp_path / "x.pt", weights_only=True)
    assert content["step"] == 20
    assert content["slurm_resilience"] == {"checkpoint": "step-0000000020.a1", "step": 20, "rank": 0}
    assert "--force replaces it" in call("export", run.path, "newest", "--to", tmp_path / "x.pt", code=78)


def test_damage_is_found_before_anything_is_exported(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    part = run.path / chain_of(run.path).loadable()[0].committed.parts[0].file
    content = bytearray(part.read_bytes())
    content[-5] ^= 1
    part.write_bytes(content)
    call("export", run.path, "newest", "--to", tmp_path / "x", code=1)
    assert not (tmp_path / "x").exists()
