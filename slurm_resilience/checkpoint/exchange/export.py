"""A checkpoint's registered objects in the formats of other libraries."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from slurm_resilience.checkpoint.exchange.destination import whole_or_nothing
from slurm_resilience.checkpoint.exchange.flat_names import dotted
from slurm_resilience.checkpoint.exchange.plain_torch import as_plain
from slurm_resilience.checkpoint.exchange.safetensors_file import write_safetensors
from slurm_resilience.checkpoint.store import Progress
from slurm_resilience.errors import CheckpointUnavailable, CheckpointUnsupported, ConfigurationError

ExportFormat = Literal["safetensors", "torch", "dcp"]
ABOUT = "slurm_resilience"
"""The key under which an export says where it comes from."""


def export_objects(
    objects: Mapping[str, Any],
    destination: Path,
    *,
    form: ExportFormat,
    only: Sequence[str],
    about: Mapping[str, Any],
    force: bool,
    progress: Progress | None = None,
) -> None:
    """Write `objects` (by the names they were registered under) to `destination`, whole or not at all.

    `only` chooses among them; a single one is written without its name, as its library would have saved it, and without
    `about`. Otherwise `about` (plain values: checkpoint, step) comes along, under `slurm_resilience`.

    Raises ConfigurationError (no such object; `destination` is there), CheckpointUnsupported (the format can't hold a
    value), CheckpointUnavailable.
    """
    content = _chosen(objects, only)
    alone = len(only) == 1
    if alone:
        (content,) = content.values()
    with whole_or_nothing(destination, folder=form == "dcp", force=force) as staging:
        match form:
            case "safetensors":
                tensors, others = dotted(content)
                said = {} if alone else {key: str(value) for key, value in about.items()}
                values = {"values": json.dumps(others)} if others else {}
                write_safetensors(staging, tensors, {"format": "pt", **said, **values}, progress=progress)
            case "torch":
                _save_torch(content if alone else content | {ABOUT: dict(about)}, staging)
            case "dcp":
                _save_dcp(content if alone else content | {ABOUT: dict(about)}, staging)


def _chosen(objects: Mapping[str, Any], only: Sequence[str]) -> dict[str, Any]:
    for name in only:
        if name not in objects:
            has = ", ".join(sorted(objects)) or "none"
            raise ConfigurationError(f"the checkpoint holds no object {name}: it holds {has}")
    plain: dict[str, Any] = as_plain({name: objects[name] for name in only or objects})
    return plain


def _save_torch(content: dict[str, Any], path: Path) -> None:
    """Raises OSError where the file system refuses: torch makes a RuntimeError of it, behind the real one."""
    try:
        with path.open("xb") as file:
            torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise
    except KeyError as error:
        raise CheckpointUnsupported(f"torch.save can't hold all of it: {error}") from error


def _save_dcp(content: dict[str, Any], folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    with _said_plainly(folder), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # meant so
        save(content, checkpoint_id=folder)


@contextlib.contextmanager
def _said_plainly(folder: Path) -> Iterator[None]:
    """DCP's own exception is no Exception: nobody's `except Exception` would see it."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        yield
    except CheckpointException as error:
        first = next(iter(error.failures.values()), None)
        raise CheckpointUnavailable(f"{folder} can't be written: {first[0] if first else error}") from error
