"""Values that torch reads without running anybody's code."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from slurm_resilience.checkpoint.format.tensor import as_tensor
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported


def load_plain(path: Path) -> Any:
    """What `torch.save` has written to `path`, on the CPU.

    Raises CheckpointUnsupported for a file that only pickle code could load: that could do anything, so we don't.
    Raises CheckpointDamaged and CheckpointUnavailable.
    """
    try:
        with path.open("rb") as file:
            return load_plain_stream(file)
    except pickle.UnpicklingError as error:
        raise CheckpointUnsupported(
            f"{path} holds more than tensors and plain values, and loading that would run whatever code it names "
            f"({_first_sentence(error)}): load it where you trust it, and save its state_dicts alone with torch.save"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(path, f"torch can't read it ({_first_sentence(error)})") from error
    except OSError as error:
        raise CheckpointUnavailable(f"{path} can't be read: {error.strerror or error}") from error


def load_plain_stream(file: IO[bytes]) -> Any:
    """As `load_plain`, with torch's own errors."""
    return torch.load(file, map_location="cpu", weights_only=True)


def as_plain(value: Any) -> Any:
    """`value` with nothing in it that `load_plain` refuses: arrays and sets become tensors and lists."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return as_tensor(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return [as_plain(item) for item in value]
    if type(value) in (list, tuple):
        return type(value)(as_plain(item) for item in value)
    return value


def _first_sentence(error: BaseException) -> str:
    """torch's messages run over many lines of advice, most of it to trust the file."""
    for line in str(error).splitlines():
        if "GLOBAL" in line or "Unsupported" in line:
            return line.strip()
    return (str(error).splitlines() or [type(error).__name__])[0].strip()
