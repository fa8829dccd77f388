"""What a transformer trained with AdamW in mixed precision has to save: 368 tensors of very different sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

LAYERS = 15
BYTES_AN_ELEMENT = 2 + 4 + 4 + 4
"""Weights in bfloat16, and in float32 the same weights and AdamW's two moments."""

_VOCABULARY = 34
"""Times the width: 100 MB in float32 for 2 GiB in all."""

State = dict[str, Any]


def shapes(gib: float) -> dict[str, tuple[int, int]]:
    """The parameters of a transformer whose state takes about so much. 15 layers of 6, embedding and last norm."""
    elements_a_width = LAYERS * 12 + _VOCABULARY
    width = max(8, round(math.sqrt(gib * 2**30 / BYTES_AN_ELEMENT / elements_a_width) / 8) * 8)
    found = {"embedding": (_VOCABULARY * width, width), "norm": (2, width)}
    for layer in range(LAYERS):
        for name, rows in (("norm1", 2), ("qkv", 3 * width), ("out", width), ("norm2", 2)):
            found[f"layers.{layer}.{name}"] = (rows, width)
        found[f"layers.{layer}.up"] = (4 * width, width)
        found[f"layers.{layer}.down"] = (width, 4 * width)
    return found


def training_state(gib: float) -> State:
    """As a run hands it to a store, the same each time. Every page has been written to, no two tensors are alike."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand(1 << 20, generator=generator) + 0.5  # nothing denormal, nothing that is no number
    filled = 0

    def tensor(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        nonlocal filled
        made = torch.empty(shape, dtype=dtype)
        flat = made.view(-1)
        for start in range(0, flat.numel(), noise.numel()):
            piece = flat[start : start + noise.numel()]
            piece.copy_(noise[: piece.numel()])
        filled += 1
        flat[0] = filled
        return made

    model = {}
    moments = {}
    for number, (name, shape) in enumerate(shapes(gib).items()):
        model[name] = tensor(shape, torch.bfloat16)
        moments[number] = {
            "master": tensor(shape, torch.float32),
            "exp_avg": tensor(shape, torch.float32),
            "exp_avg_sq": tensor(shape, torch.float32),
        }
    groups = [{"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "step": 1000, "params": list(moments)}]
    return {"objects": {"model": model, "optimizer": {"state": moments, "param_groups": groups}}}


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """With their names, in the order of the state."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_of(item, f"{name}.{key}" if name else str(key))


def flat_state(state: State) -> dict[str, torch.Tensor]:
    """For libraries that keep tensors by name and nothing else."""
    return dict(tensors_of(state))


def bytes_in(state: State) -> int:
    return sum(tensor.nbytes for _, tensor in tensors_of(state))


def fresh_like(value: Any) -> Any:
    """The same state with memory that nobody has touched yet: what a library that loads in place has to be given."""
    if isinstance(value, torch.Tensor):
        return torch.empty_like(value)
    if isinstance(value, dict):
        return {key: fresh_like(item) for key, item in value.items()}
    return value
