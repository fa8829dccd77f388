"""The whole state of this rank's training: what a checkpoint's part holds."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.distributed.presence import SHARDS, dtensors_exist
from slurm_resilience.errors import CheckpointMismatch, ConfigurationError
from slurm_resilience.training.cursor import Cursor
from slurm_resilience.training.dealing import Dealing
from slurm_resilience.training.gradient_buckets import GradientBuckets
from slurm_resilience.training.random_state import capture_random_state, restore_random_state
from slurm_resilience.training.resumption import STATE_FORMAT
from slurm_resilience.training.source import Source

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.distributed.shards import Layouts


class TrainingState:
    def __init__(self, cursor: Cursor) -> None:
        self.notes: dict[str, Any] = {}
        self.source: Source | None = None
        """Of the loop that is going on, or was last."""
        self.dealing: Dealing | None = None
        """And how its items are dealt to the ranks, if they are."""
        self._cursor = cursor
        self._objects: dict[str, Any] = {}
        self._buckets = GradientBuckets(self._objects)
        self._given: dict[str, tuple[weakref.ref[Any], int]] = {}

    @property
    def names(self) -> Collection[str]:
        return self._objects.keys()

    @property
    def objects(self) -> Collection[Any]:
        return self._objects.values()

    def register(self, name: str, thing: Any) -> None:
        if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
            raise ConfigurationError(
                f"{name} is a {type(thing).__name__} without state_dict and load_state_dict: "
                "keep plain values in run.notes"
            )
        if name in self._objects:
            raise ConfigurationError(f"{name} is registered twice")
        self._objects[name] = thing

    def capture(self) -> dict[str, Any]:
        """References, not copies: true until the training goes on."""
        data: dict[str, Any] = {}
        if self.source is not None:
            data = {"kind": type(self.source).__name__, "kept": self.source.keep()}
            if self.dealing is not None:
                data["dealing"] = self.dealing.to_state()
        state = {
            "format": STATE_FORMAT,
            "objects": self._states(),
            "position": self._cursor.position().to_state(),
            "random": capture_random_state(),
            "data": data,
            "gradient_buckets": self._buckets.capture(),
            "notes": self.notes,
        }
        if not dtensors_exist():
            return state
        from slurm_resilience.checkpoint.distributed.shard_notes import to_state
        from slurm_resilience.checkpoint.distributed.shards import take_apart

        plain, notes = take_apart(state)
        return {**plain, SHARDS: to_state(notes)} if notes else plain

    def layouts(self) -> Layouts:
        """How the tensors that are alive lie."""
        from slurm_resilience.checkpoint.distributed.shards import layouts_of

        optimizers = {f"objects/{name}": thing for name, thing in self._objects.items() if is_optimizer(thing)}
        return layouts_of({"objects": self._states()}, optimizers=optimizers)

    def _states(self) -> dict[str, Any]:
        return {name: thing.state_dict() for name, thing in self._objects.items()}

    def apply(self, state: Mapping[str, Any], origin: str) -> None:
        """Objects, notes and, last, the random numbers; the position is the cursor's business.

        Raises CheckpointMismatch where an object doesn't take its state.
        """
        self._say_what_stays_changed()
        for name, thing in self._objects.items():
            _load(name, thing, with_own_containers(state["objects"][name]), origin)
        self._given = {
            f"{name}/{path}": (weakref.ref(tensor), version)
            for name, thing in self._objects.items()
            if is_optimizer(thing)
            for path, tensor, version in _versions(state["objects"][name])
        }
        self.notes.clear()
        self.notes.update(with_own_containers(state["notes"]))
        for name in self._buckets.restore(state["gradient_buckets"]):
            sys.stderr.write(
                f"slurm-resilience: the gradient buckets around {name} can't be laid out as they were: going on, but "
                "roundings may differ from those of a run that was never interrupted\n"
            )
        if state["random"] is not None:  # imported: it has none, and goes on with those of this start
            restore_random_state(state["random"])

    def _say_what_stays_changed(self) -> None:
        """Optimizers don't copy what they are given: what was done to it since can't be taken back by giving it again.

        It would take a copy of everything to do better, for a step that nobody should take outside of the loops.
        """
        there = {name: (given(), version) for name, (given, version) in self._given.items()}
        changed = [
            name for name, (tensor, version) in there.items() if tensor is not None and _count(tensor) != version
        ]
        self._given = {}
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            sys.stderr.write(
                f"slurm-resilience: {changed[0]}{more}: changed since the training has resumed, before its loop, and "
                "that can't be taken back\n"
            )


def _versions(state: Any) -> Iterator[tuple[str, Any, int]]:
    """The tensors of a state, and torch's count of what was done to them."""
    import torch

    from slurm_resilience.checkpoint.distributed.tree import leaves

    for path, leaf in leaves(state):
        tensor = getattr(leaf, "_local_tensor", leaf)
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
            yield path, tensor, _count(tensor)


def _count(tensor: Any) -> int:
    return int(tensor._version)  # noqa: SLF001 torch's only word on changes


def is_optimizer(thing: Any) -> bool:
    import torch

    return isinstance(thing, torch.optim.Optimizer)


def _load(name: str, thing: Any, state: Any, origin: str) -> None:
    try:
        thing.load_state_dict(state)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        said = f"{name} doesn't take its state from {origin}: {error}"
        raise CheckpointMismatch(f"{said}{_wrapping(thing, state)}") from error


def _wrapping(thing: Any, state: Any) -> str:
    """What to say where only a wrapper around the model is another one."""
    names, saved = (tuple(each) if isinstance(each, dict) else () for each in (thing.state_dict(), state))
    if not names or not saved:
        return ""
    for prefix, wrapper in (("module.", "DistributedDataParallel"), ("_orig_mod.", "torch.compile")):
        if {f"{prefix}{name}" for name in names} == set(saved) or {f"{prefix}{name}" for name in saved} == set(names):
            return (
                f" (only {wrapper} makes the difference: register the model inside of it, which is the same with it "
                "and without)"
            )
    return ""


def with_own_containers(value: Any) -> Any:
    """A copy down to the leaves: who takes a state may keep and change its dicts and lists."""
    if isinstance(value, dict):
        copied = value.copy()  # OrderedDict and Counter stay what they are, and a module's notes come along
        for key, item in value.items():
            copied[key] = with_own_containers(item)
        if hasattr(value, "__dict__"):
            copied.__dict__.update(value.__dict__)
        return copied
    if type(value) in (list, tuple):
        return type(value)(with_own_containers(item) for item in value)
    return value
