"""Checkpoints of other libraries, found out and read. No pickle code is ever run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from slurm_resilience.checkpoint.exchange.export import ABOUT
from slurm_resilience.checkpoint.exchange.foreign import WHOLE, Foreign
from slurm_resilience.checkpoint.exchange.plain_torch import load_plain
from slurm_resilience.checkpoint.exchange.safetensors_file import read_safetensors
from slurm_resilience.checkpoint.store import Progress
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, ConfigurationError

ImportFormat = Literal["auto", "torch", "safetensors", "dcp", "lightning", "hf"]

_LIKELY = {
    "model": ("model", "model_state_dict", "state_dict", "model_state", "module", "net", "network", "weights"),
    "optimizer": ("optimizer", "optimizer_state_dict", "optim", "optimizer_state"),
    "scheduler": ("scheduler", "lr_scheduler", "scheduler_state_dict", "lr_scheduler_state_dict"),
}
_STEPS = ("step", "global_step", "steps", "iteration", "iter_num")


def read_foreign(path: Path, form: ImportFormat, *, progress: Progress | None = None) -> Foreign:
    """Everything in `path`. Raises ConfigurationError (nothing of that kind is there), CheckpointUnsupported (only
    pickle code could load it), CheckpointDamaged, CheckpointUnavailable.
    """
    if not path.exists():
        raise ConfigurationError(f"{path} is not there")
    if form == "auto":
        form = _found_out(path)
    match form:
        case "safetensors":
            tensors, about = read_safetensors(path, progress=progress)
            return Foreign("safetensors", tensors, _number(about.get("step")), None, {"model": WHOLE})
        case "dcp":
            from slurm_resilience.checkpoint.exchange.dcp_folder import read_dcp

            return _plain(read_dcp(path), "torch.distributed.checkpoint")
        case "hf":
            return _hugging_face(path, progress)
        case "lightning":
            return _lightning(load_plain(path), path)
        case _:
            tree = load_plain(path)
            return _lightning(tree, path) if form == "auto" and _is_lightning(tree) else _plain(tree, "torch.save")


def _found_out(path: Path) -> ImportFormat:
    """`auto` itself for a file of torch.save: what it is shows only when it is read."""
    if path.is_file():
        return "safetensors" if path.suffix == ".safetensors" else "auto"
    if (path / ".metadata").is_file():
        return "dcp"
    if (path / "trainer_state.json").is_file() or _model_file(path) is not None:
        return "hf"
    raise ConfigurationError(
        f"{path} is no checkpoint that can be imported: a folder of torch.distributed.checkpoint has a .metadata, "
        "one of Hugging Face's Trainer a trainer_state.json"
    )


def _plain(tree: Any, form: str) -> Foreign:
    if not isinstance(tree, Mapping):
        raise ConfigurationError(f"the file holds a {type(tree).__name__}, and not state_dicts by name")
    about = tree.get(ABOUT)
    if isinstance(about, Mapping):  # our own export knows what it holds
        step, epoch = _number(about.get("step")), _number(about.get("epoch"))
        return Foreign(form, tree, step, epoch, {str(name): str(name) for name in tree if name != ABOUT})
    step = next((number for name in _STEPS if (number := _number(tree.get(name))) is not None), None)
    if tree and all(isinstance(value, torch.Tensor) for value in tree.values()):
        return Foreign(form, tree, None, None, {"model": WHOLE})
    defaults = {}
    for name, likely in _LIKELY.items():
        found = next((key for key in likely if isinstance(tree.get(key), Mapping)), None)
        if found is not None:
            defaults[name] = found
    return Foreign(form, tree, step, None, defaults)


def _is_lightning(tree: Any) -> bool:
    return isinstance(tree, Mapping) and "pytorch-lightning_version" in tree and "state_dict" in tree


def _lightning(tree: Any, path: Path) -> Foreign:
    if not isinstance(tree, Mapping) or not isinstance(tree.get("state_dict"), Mapping):
        raise ConfigurationError(f"{path} is no checkpoint of Lightning: it has no state_dict")
    defaults = {"model": "state_dict"}
    for name, key in (("optimizer", "optimizer_states"), ("scheduler", "lr_schedulers")):
        if tree.get(key):
            defaults[name] = f"{key}/0"
    return Foreign("Lightning", tree, _number(tree.get("global_step")), _epochs_of_lightning(tree), defaults)


def _epochs_of_lightning(tree: Mapping[str, Any]) -> int | None:
    """`epoch` is the one that was going on; the loops' own progress says whether its batches were done."""
    try:
        return int(tree["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"])
    except (KeyError, TypeError, ValueError):
        return _number(tree.get("epoch"))


def _hugging_face(folder: Path, progress: Progress | None) -> Foreign:
    model = _model_file(folder)
    if model is None:
        raise ConfigurationError(f"{folder} holds neither model.safetensors nor pytorch_model.bin")
    tree: dict[str, Any] = {"model": _weights(model, progress)}
    for name in ("optimizer", "scheduler"):
        file = folder / f"{name}.pt"
        if file.is_file():
            tree[name] = load_plain(file)
    trainer = folder / "trainer_state.json"
    step, epochs_done = None, None
    if trainer.is_file():
        tree["trainer_state"] = told = _json(trainer)
        step = _number(told.get("global_step"))
        epoch = told.get("epoch")  # a fraction in the middle of one
        epochs_done = math.floor(epoch) if isinstance(epoch, (int, float)) and math.isfinite(epoch) else None
    defaults = {str(name): str(name) for name in ("model", "optimizer", "scheduler") if name in tree}
    return Foreign("Hugging Face's Trainer", tree, step, epochs_done, defaults)


def _model_file(folder: Path) -> Path | None:
    names = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _weights(file: Path, progress: Progress | None) -> dict[str, Any]:
    """Of one file, or of those that an index names."""
    if file.suffix != ".json":
        if file.suffix == ".safetensors":
            return read_safetensors(file, progress=progress)[0]
        weights: dict[str, Any] = load_plain(file)
        return weights
    names = _json(file).get("weight_map")
    if not isinstance(names, dict):
        raise CheckpointDamaged(file, "it is no index of weights")
    weights = {}
    for name in sorted(set(names.values())):
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointDamaged(file, f"it names {name!r}, which is no file beside it")
        weights |= _weights(file.with_name(name), progress)
    missing = sorted(set(names) - set(weights))
    if missing:
        raise CheckpointDamaged(file, f"none of its files holds {missing[0]}")
    return weights


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise CheckpointUnavailable(f"{file} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CheckpointDamaged(file, f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointDamaged(file, "it is no JSON object")
    return value


def _number(value: Any) -> int | None:
    """A count, however it was kept."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if value < 0 or value != int(value):
        return None
    return int(value)
