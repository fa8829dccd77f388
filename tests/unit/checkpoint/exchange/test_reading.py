"""Checkpoints of other libraries, built by hand as these lay them out."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import save

from slurm_resilience.checkpoint.exchange.foreign import pick
from slurm_resilience.checkpoint.exchange.reading import read_foreign
from slurm_resilience.checkpoint.exchange.safetensors_file import write_safetensors
from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointUnavailable,
    CheckpointUnsupported,
    ConfigurationError,
)

WEIGHTS = {"net.0.weight": torch.ones(2, 3), "net.0.bias": torch.zeros(2)}
OPTIMIZER = {"state": {0: {"step": torch.tensor(5.0), "exp_avg": torch.ones(2, 3)}}, "param_groups": [{"lr": 0.1}]}


class Bomb:
    """What runs when it is unpickled."""

    went_off: list[str] = []  # noqa: RUF012

    def __reduce__(self) -> tuple[Any, ...]:
        return (Bomb.went_off.append, ("boom",))


def dcp_save(content: dict[str, Any], folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"torch\.distributed is disabled"):
        save(content, checkpoint_id=folder)


def lightning(path: Path, **changes: Any) -> Path:
    loops = {"fit_loop": {"epoch_progress": {"current": {"ready": 3, "started": 3, "processed": 3, "completed": 2}}}}
    value = {
        "epoch": 2,
        "global_step": 300,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": WEIGHTS,
        "loops": loops,
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_path": "x"}},
        "optimizer_states": [OPTIMIZER],
        "lr_schedulers": [{"last_epoch": 3, "base_lrs": [0.1]}],
        "hparams_name": "kwargs",
        "hyper_parameters": {"width": 3},
    }
    torch.save(value | changes, path)
    return path


def test_a_lightning_checkpoint_is_known_by_itself(tmp_path: Path) -> None:
    foreign = read_foreign(lightning(tmp_path / "last.ckpt"), "auto")
    assert (foreign.form, foreign.step, foreign.epochs_done) == ("Lightning", 300, 3)
    assert dict(foreign.defaults) == {
        "model": "state_dict",
        "optimizer": "optimizer_states/0",
        "scheduler": "lr_schedulers/0",
    }
    assert pick(foreign.tree, "optimizer_states/0")["param_groups"] == [{"lr": 0.1}]
    assert set(pick(foreign.tree, "state_dict/net.")) == {"0.weight", "0.bias"}


def test_a_lightning_checkpoint_without_progress_says_its_epoch_and_without_optimizer_none(tmp_path: Path) -> None:
    foreign = read_foreign(lightning(tmp_path / "x", loops={}, optimizer_states=[], lr_schedulers=[]), "lightning")
    assert foreign.epochs_done == 2
    assert dict(foreign.defaults) == {"model": "state_dict"}


def trainer(folder: Path, *, safe: bool = True, **state: Any) -> Path:
    folder.mkdir()
    if safe:
        write_safetensors(folder / "model.safetensors", WEIGHTS, {"format": "pt"})
    else:
        torch.save(WEIGHTS, folder / "pytorch_model.bin")
    torch.save(OPTIMIZER, folder / "optimizer.pt")
    torch.save({"last_epoch": 500}, folder / "scheduler.pt")
    (folder / "rng_state.pth").write_bytes(pickle.dumps(Bomb()))
    (folder / "trainer_state.json").write_text(
        json.dumps({"global_step": 500, "epoch": 1.75, "log_history": []} | state)
    )
    return folder


@pytest.mark.parametrize("safe", [True, False])
def test_a_trainer_folder_holds_model_optimizer_and_scheduler(tmp_path: Path, safe: bool) -> None:
    foreign = read_foreign(trainer(tmp_path / "checkpoint-500", safe=safe), "auto")
    assert (foreign.form, foreign.step, foreign.epochs_done) == ("Hugging Face's Trainer", 500, 1)
    assert dict(foreign.defaults) == {"model": "model", "optimizer": "optimizer", "scheduler": "scheduler"}
    assert torch.equal(foreign.tree["model"]["net.0.weight"], WEIGHTS["net.0.weight"])
    assert Bomb.went_off == []


def test_weights_in_several_files_are_put_together_by_their_index(tmp_path: Path) -> None:
    names = list(WEIGHTS)
    for number, name in enumerate(names):
        write_safetensors(tmp_path / f"model-{number}.safetensors", {name: WEIGHTS[name]}, {})
    index = {"weight_map": {name: f"model-{number}.safetensors" for number, name in enumerate(names)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    foreign = read_foreign(tmp_path, "auto")
    assert set(foreign.tree["model"]) == set(names)
    assert foreign.step is None


@pytest.mark.parametrize(
    ("weight_map", "complaint"),
    [
        ({"a": "../elsewhere.safetensors"}, "no file beside it"),
        ({"a": "model-0.safetensors"}, "none of its files holds a"),
        ([], "no index of weights"),
    ],
)
def test_an_index_that_points_elsewhere_or_nowhere_is_refused(tmp_path: Path, weight_map: Any, complaint: str) -> None:
    write_safetensors(tmp_path / "model-0.safetensors", {}, {})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointDamaged, match=complaint):
        read_foreign(tmp_path, "hf")


@pytest.mark.parametrize(
    ("content", "step", "defaults"),
    [
        (WEIGHTS, None, {"model": "."}),
        ({"model": WEIGHTS, "optimizer": OPTIMIZER, "step": 7}, 7, {"model": "model", "optimizer": "optimizer"}),
        (
            {"model_state_dict": WEIGHTS, "optimizer_state_dict": OPTIMIZER, "global_step": torch.tensor(9)},
            9,
            {"model": "model_state_dict", "optimizer": "optimizer_state_dict"},
        ),
        ({"generator": WEIGHTS, "epoch": 3}, None, {}),
        ({"model": WEIGHTS, "step": -1}, None, {"model": "model"}),
        ({"model": WEIGHTS, "step": float("inf"), "iteration": float("nan")}, None, {"model": "model"}),
    ],
)
def test_a_file_of_torch_save_is_read_by_what_its_keys_are_usually_called(
    tmp_path: Path, content: Any, step: int | None, defaults: dict[str, str]
) -> None:
    torch.save(content, tmp_path / "x.pt")
    foreign = read_foreign(tmp_path / "x.pt", "auto")
    assert (foreign.step, dict(foreign.defaults)) == (step, defaults)


def test_a_folder_of_dcp_is_read_without_its_pickle(tmp_path: Path) -> None:
    content = {"app": {"model": WEIGHTS, "optim": OPTIMIZER, "lrs": [0.1, 0.2], "name": "x"}}
    dcp_save(content, tmp_path / "x")
    app = read_foreign(tmp_path / "x", "auto").tree["app"]
    assert torch.equal(app["model"]["net.0.weight"], WEIGHTS["net.0.weight"])
    # DCP has made words of all keys, and an optimizer looks for numbers.
    assert torch.equal(app["optim"]["state"][0]["exp_avg"], torch.ones(2, 3))
    assert (app["lrs"], app["name"]) == ([0.1, 0.2], "x")


def test_optimizers_that_keep_nothing_and_schedulers_with_milestones_come_back_from_dcp(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])
    dcp_save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, tmp_path / "x")
    tree = read_foreign(tmp_path / "x", "auto").tree
    optimizer.load_state_dict(tree["optimizer"])
    scheduler.load_state_dict(tree["scheduler"])
    rates = []
    for _ in range(4):
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
        optimizer.step()
        scheduler.step()
    assert rates == [1.0, 1.0, 0.1, 0.01]


@pytest.mark.parametrize("form", ["auto", "torch", "lightning"])
def test_a_file_that_needs_pickle_code_is_refused_and_the_code_not_run(tmp_path: Path, form: Any) -> None:
    torch.save({"state_dict": WEIGHTS, "hyper_parameters": Bomb()}, tmp_path / "x.ckpt")
    with pytest.raises(CheckpointUnsupported, match="would run whatever code it names"):
        read_foreign(tmp_path / "x.ckpt", form)
    assert Bomb.went_off == []


def test_a_dcp_folder_whose_metadata_names_other_code_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    dcp_save({"w": torch.ones(2)}, tmp_path / "x")
    (tmp_path / "x" / ".metadata").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointUnsupported, match=r"it names .*Bomb|it names builtins"):
        read_foreign(tmp_path / "x", "auto")
    dcp_save({"bomb": Bomb(), "w": torch.ones(2)}, tmp_path / "y")
    with pytest.raises(CheckpointUnsupported, match="would run whatever code it names"):
        read_foreign(tmp_path / "y", "auto")
    assert Bomb.went_off == []


def test_a_dcp_folder_with_a_file_missing_is_damaged(tmp_path: Path) -> None:
    dcp_save({"w": torch.ones(2)}, tmp_path / "x")
    for file in (tmp_path / "x").glob("*.distcp"):
        file.unlink()
    with pytest.raises(CheckpointDamaged, match="can't read it"):
        read_foreign(tmp_path / "x", "dcp")


def test_what_is_cut_short_is_damaged_and_what_is_missing_is_said_to_be(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "x.pt")
    (tmp_path / "x.pt").write_bytes((tmp_path / "x.pt").read_bytes()[:300])
    with pytest.raises(CheckpointDamaged, match="torch can't read it"):
        read_foreign(tmp_path / "x.pt", "torch")
    with pytest.raises(ConfigurationError, match="is not there"):
        read_foreign(tmp_path / "y", "auto")
    with pytest.raises(CheckpointUnavailable, match="can't be read"):
        read_foreign(tmp_path, "torch")


def test_a_folder_of_nothing_known_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no checkpoint that can be imported"):
        read_foreign(tmp_path, "auto")
    with pytest.raises(ConfigurationError, match=r"neither model\.safetensors"):
        read_foreign(tmp_path, "hf")
    torch.save([1], tmp_path / "x.pt")
    with pytest.raises(ConfigurationError, match="holds a list"):
        read_foreign(tmp_path / "x.pt", "auto")
    with pytest.raises(ConfigurationError, match="no checkpoint of Lightning"):
        read_foreign(tmp_path / "x.pt", "lightning")


@pytest.mark.parametrize(
    ("path", "found"),
    [(".", "tree"), ("a/0/b", 1), ("a/1", 2), ("c/5", 3), ("c/x.", {"y": 4, "z": 5})],
)
def test_a_path_leads_through_dicts_lists_and_numbers(path: str, found: Any) -> None:
    tree = {"a": [{"b": 1}, 2], "c": {5: 3, "x.y": 4, "x.z": 5}}
    assert pick(tree, path) == (tree if found == "tree" else found)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("d", "the file holds no d: it has a, c"),
        ("a/7", "a holds no 7: it has 2 items"),
        ("a/0/b/x", "a/0/b holds no x: it is a int"),
        ("c/q.", r"nothing in c begins with q\.: it has 5"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_there_is(path: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        pick({"a": [{"b": 1}, 2], "c": {5: 3}}, path)
