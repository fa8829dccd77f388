"""Copying that goes on while the next step computes: safe for tensors that only an optimizer's step changes.

Opt-in: whoever changes parameters behind the optimizer's back through `.data` would have it saved in the middle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from slurm_resilience.checkpoint.snapshot.taken import Taken


class Overlap:
    """Knows the optimizers among the registered objects, and waits for the copy before one of them steps."""

    def __init__(self, objects: Iterable[Any]) -> None:
        import torch

        self._optimizers = [each for each in objects if isinstance(each, torch.optim.Optimizer)]
        self._copying: Taken | None = None
        for optimizer in self._optimizers:
            optimizer.register_step_pre_hook(self._before_step)

    def tensors(self) -> frozenset[tuple[object, ...]]:
        """The identities of what may be copied later: the optimizers' parameters, and their state."""
        from slurm_resilience.checkpoint.format.tensor import identity

        # Of a DTensor it is this rank's shard that is saved.
        local = (getattr(tensor, "_local_tensor", tensor) for tensor in self._changed_by_steps())
        return frozenset(identity(tensor.detach()) for tensor in local)

    def guard(self, taken: Taken) -> None:
        """No optimizer steps before `taken` is whole."""
        self._copying = taken

    def _changed_by_steps(self) -> Iterator[torch.Tensor]:
        import torch

        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield parameter
                    for value in optimizer.state.get(parameter, {}).values():
                        if isinstance(value, torch.Tensor):
                            yield value

    def _before_step(self, *_: object) -> None:
        taken, self._copying = self._copying, None
        if taken is None:
            return
        try:
            taken.wait()
        except Exception as error:  # noqa: BLE001 a failed save is no reason to end the training: its writer refuses it
            sys.stderr.write(f"slurm-resilience: the snapshot for {taken.job.checkpoint} is void: {error}\n")
