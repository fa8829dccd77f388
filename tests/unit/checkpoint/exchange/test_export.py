"""What the training had registered, in other libraries' formats, whole or not at all."""

from __future__ import annotations

import json
import os
import resource
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.checkpoint.exchange import destination
from slurm_resilience.checkpoint.exchange.export import ExportFormat, export_objects
from slurm_resilience.checkpoint.exchange.plain_torch import load_plain
from slurm_resilience.checkpoint.exchange.reading import read_foreign
from slurm_resilience.checkpoint.exchange.safetensors_file import read_safetensors
from slurm_resilience.durable_file import sync_directory
from slurm_resilience.errors import CheckpointUnavailable, CheckpointUnsupported, ConfigurationError

ABOUT = {"checkpoint": "step-0000000010.a1", "step": 10}
FORMATS: list[ExportFormat] = ["safetensors", "torch", "dcp"]


def trained() -> dict[str, Any]:
    """A model and its optimizer, as a training registers them, after a step."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def export(objects: dict[str, Any], to: Path, form: ExportFormat, *only: str, force: bool = False) -> None:
    export_objects(objects, to, form=form, only=only, about=ABOUT, force=force)


def test_safetensors_have_dotted_names_and_the_rest_as_json(tmp_path: Path) -> None:
    objects = trained()
    export(objects, tmp_path / "x.safetensors", "safetensors")
    tensors, metadata = read_safetensors(tmp_path / "x.safetensors")
    assert torch.equal(tensors["model.0.weight"], objects["model"]["0.weight"])
    assert torch.equal(tensors["optimizer.state.0.exp_avg"], objects["optimizer"]["state"][0]["exp_avg"])
    assert (metadata["checkpoint"], metadata["step"]) == ("step-0000000010.a1", "10")
    assert json.loads(metadata["values"])["optimizer.param_groups.0.lr"] == 0.001


def test_a_single_object_is_written_as_its_library_would(tmp_path: Path) -> None:
    objects = trained()
    for form in FORMATS:
        export(objects, tmp_path / form, form, "model")
    names = set(objects["model"])
    assert set(read_safetensors(tmp_path / "safetensors")[0]) == names
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    model.load_state_dict(torch.load(tmp_path / "torch", weights_only=True))
    model.load_state_dict(read_foreign(tmp_path / "dcp", "auto").tree)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_all_objects_come_back_with_every_value(tmp_path: Path, form: ExportFormat) -> None:
    objects = trained()
    export(objects, tmp_path / "x", form)
    foreign = read_foreign(tmp_path / "x", "auto")
    assert (foreign.step, dict(foreign.defaults)) == (10, {"model": "model", "optimizer": "optimizer"})
    for name in objects:
        assert equal(foreign.tree[name], dict(objects[name])), name
    optimizer = torch.optim.AdamW(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).parameters())
    optimizer.load_state_dict(foreign.tree["optimizer"])
    assert equal(optimizer.state_dict(), objects["optimizer"])


def test_arrays_sets_and_numpy_numbers_become_what_everybody_can_read(tmp_path: Path) -> None:
    odd = {"o": OrderedDict(a=np.arange(3), b={3}, c=np.float32(0.5), d=(1, None), e=b"x")}
    export(odd, tmp_path / "x", "torch")
    back = load_plain(tmp_path / "x")["o"]
    assert torch.equal(back.pop("a"), torch.arange(3))
    assert back == {"b": [3], "c": 0.5, "d": (1, None), "e": b"x"}


@pytest.mark.parametrize("form", FORMATS)
def test_arrays_of_the_other_byte_order_hold_the_same_numbers(tmp_path: Path, form: ExportFormat) -> None:
    export({"o": {"a": np.arange(3, dtype=">i4")}}, tmp_path / "x", form, "o")
    assert read_foreign(tmp_path / "x", form).tree["a"].tolist() == [0, 1, 2]


def test_a_dtype_that_torch_save_lacks_is_a_sentence(tmp_path: Path) -> None:
    nibbles = torch.zeros(2, dtype=torch.uint8).view(getattr(torch, "uint4"))  # noqa: B009 mypy doesn't know it
    with pytest.raises(CheckpointUnsupported, match=r"torch\.save can't hold all of it.*uint4"):
        export({"o": {"a": nibbles}}, tmp_path / "x", "torch")


def test_names_that_would_become_one_are_refused(tmp_path: Path) -> None:
    twice = {"m": {"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}}}
    with pytest.raises(CheckpointUnsupported, match=r"both be called m\.a\.b"):
        export(twice, tmp_path / "x", "safetensors")
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no object modle: it holds model, optimizer"):
        export(trained(), tmp_path / "x", "torch", "modle")


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_overwritten_without_being_told(tmp_path: Path, form: ExportFormat) -> None:
    to = tmp_path / "x"
    export({"m": {"w": torch.zeros(2)}}, to, form)
    with pytest.raises(ConfigurationError, match="--force replaces it"):
        export({"m": {"w": torch.ones(2)}}, to, form)
    export({"m": {"w": torch.ones(2)}}, to, form, "m", force=True)
    content = read_safetensors(to)[0] if form == "safetensors" else read_foreign(to, "auto").tree
    assert torch.equal(content["w"], torch.ones(2))
    assert list(tmp_path.iterdir()) == [to]


@pytest.mark.parametrize("old", ["file", "folder"])
def test_a_file_and_a_folder_can_take_each_others_place(tmp_path: Path, old: str) -> None:
    to = tmp_path / "x"
    if old == "file":
        to.write_text("old")
    else:
        (to / "deep").mkdir(parents=True)
    export({"m": {"w": torch.ones(2)}}, to, "dcp" if old == "file" else "torch", force=True)
    assert list(tmp_path.iterdir()) == [to]


def refuse_at(number: int, patch: pytest.MonkeyPatch) -> None:
    """The n-th fsync fails."""
    left = number

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "Input/output error")
        os.fdatasync(descriptor)

    patch.setattr("os.fsync", fsync)


@pytest.mark.parametrize("form", FORMATS)
def test_a_refusal_leaves_the_old_one_and_nothing_else(tmp_path: Path, form: ExportFormat) -> None:
    to = tmp_path / "x"
    to.write_text("old")
    with pytest.MonkeyPatch.context() as patch:
        refuse_at(0, patch)
        with pytest.raises(CheckpointUnavailable, match="Input/output error"):
            export({"m": {"w": torch.ones(2)}}, to, form, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert to.read_text() == "old"


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_may_not_become_so_large_is_a_refusal_and_nothing_is_left_of_it(
    tmp_path: Path, form: ExportFormat
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(CheckpointUnavailable):
            export({"m": {"w": torch.ones(1 << 19)}}, tmp_path / "x", form)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_an_old_folder_is_durably_replaced_before_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x" / "old").mkdir(parents=True)
    gone: list[bool] = []

    def look(directory: Path) -> None:
        gone.append(not any((path / "old").exists() for path in tmp_path.iterdir()))
        sync_directory(directory)

    monkeypatch.setattr(f"{destination.__name__}.sync_directory", look)
    with destination.whole_or_nothing(tmp_path / "x", folder=True, force=True):
        pass
    assert gone[0] is False


def test_an_old_folder_is_put_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "x"
    (to / "old").mkdir(parents=True)
    rename = Path.rename

    def refuse_the_new(self: Path, target: Path) -> Path:
        if target == to and (self / "new").exists():
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_the_new)
    with (
        pytest.raises(CheckpointUnavailable, match="Input/output error"),
        destination.whole_or_nothing(to, folder=True, force=True) as staging,
    ):
        (staging / "new").touch()
    assert [path.name for path in to.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [to]


def test_a_folder_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no folder"):
        export({"m": {}}, tmp_path / "missing" / "x", "torch")
