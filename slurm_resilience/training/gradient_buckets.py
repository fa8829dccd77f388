# ruff: noqa: SLF001  # DDP has no public way to say any of this
"""DistributedDataParallel's gradient buckets, put back as they were.

DDP lays its gradients out in buckets and, after the first step of a process, lays them out anew in the order in which
they became ready. Where an element lies in a bucket decides in which order an all-reduce over more than two ranks adds
it up, so a resumed process, which begins with the first layout again, computes its first step with other roundings
(measured with torch 2.13 and Gloo on 4 ranks: 1 unit in the last place in 100 of 144 weights after 13 steps). The
order is therefore part of a checkpoint, and a resumed process lets its gradients become ready in that order once, as
zeros, before its first step.

torch has no public way to say this; what is used of DDP's inside is probed, and where it isn't there the training goes
on all the same, only not bit for bit.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

_SAMPLED_EVERY = 100
"""torch's own rate: every so many steps DDP brings its facts up to date, and in each of the first ten."""

Orders = dict[str, list[int]]
"""By the name of the registered object: the numbers of its parameters that need gradients, bucket by bucket."""


class GradientBuckets:
    """The layouts of all DDP models among the registered objects, or around them."""

    def __init__(self, registered: Mapping[str, Any]) -> None:
        self._registered = registered
        self._models: dict[str, Any] | None = None
        self._orders: Orders = {}

    def capture(self) -> Orders:
        """The layouts that the next step will use; without those of models that keep their first one.

        Called by all ranks after the same step: a layout that DDP would change at the next step is changed now, which
        is a collective.
        """
        for name, model in self._parallel_models().items():
            if name not in self._orders and (order := _order_of(model)) is not None:
                self._orders[name] = order
        return dict(self._orders)

    def restore(self, orders: Mapping[str, list[int]]) -> list[str]:
        """Lay the buckets out as `orders` say; the names of those for which this can't be done.

        Called by all ranks before their first step; gradients are left as they are. DDP lays its buckets out once in a
        process: what is laid out already stays.
        """
        if self._orders == orders:
            return []
        models = self._parallel_models()
        self._orders = {name: list(order) for name, order in orders.items()}
        return [name for name, order in sorted(self._orders.items()) if not _restore(models.get(name), order)]

    def _parallel_models(self) -> dict[str, Any]:
        if self._models is None:
            self._models = _find_models(self._registered)
        return self._models


def _find_models(registered: Mapping[str, Any]) -> dict[str, Any]:
    """Most trainings register the bare model, and keep the DDP module around it to themselves."""
    if "torch.nn.parallel.distributed" not in sys.modules:
        return {}
    from torch.nn.parallel import DistributedDataParallel

    found = {name: thing for name, thing in registered.items() if isinstance(thing, DistributedDataParallel)}
    for name, thing in registered.items():
        if name not in found and (around := _parallel_around(thing, DistributedDataParallel)) is not None:
            found[name] = around
    return found


def _parallel_around(module: Any, parallel: type) -> Any:
    """The DDP module that holds this one; None: there is none.

    From the module outwards: a list of everything there is (`gc.get_objects`) would for a moment hold tensors that
    another thread is just freeing (torch 2.6 on Python 3.13: "Deallocating Tensor that still has live PyObject
    references").
    """
    for children in gc.get_referrers(module):
        if type(children) is not dict or children.get("module") is not module:
            continue
        for holder in gc.get_referrers(children):
            # type() and not isinstance(): the latter asks proxies for their __class__, and runs their code.
            if issubclass(type(holder), parallel):
                return holder
            if type(holder) is dict and holder.get("_modules") is children:  # attributes that are a dict of their own
                for owner in gc.get_referrers(holder):
                    if issubclass(type(owner), parallel):
                        return owner
    return None


def _order_of(model: Any) -> list[int] | None:
    reducer: Any = getattr(model, "reducer", None)
    if (
        reducer is None
        or not hasattr(reducer, "_rebuild_buckets")
        or not hasattr(reducer, "_get_zeros_like_grad_buckets")
    ):
        return None
    if reducer._rebuild_buckets():
        # Just now, so that DDP's own facts don't tell of it yet; the buckets are as large as the gradients.
        numbers = {id(parameter): number for number, parameter in enumerate(_trainable(model))}
        buckets = reducer._get_zeros_like_grad_buckets()
        return [numbers[id(parameter)] for bucket in buckets for parameter in bucket.parameters()]
    _bring_facts_up_to_date(model)
    text = model._get_ddp_logging_data().get("rebuilt_per_bucket_param_indices", "")
    return [int(word) for word in text.replace(",", " ").split()] or None


def _bring_facts_up_to_date(model: Any) -> None:
    """DDP's facts are those of the beginning of a step, and older after the tenth: a layout may be newer than they."""
    logger: Any = getattr(model, "logger", None)
    sample_every: Any = getattr(model.reducer, "_set_ddp_runtime_logging_sample_rate", None)
    if sample_every is None or not hasattr(logger, "set_runtime_stats_and_log"):
        return
    sample_every(1)
    try:
        logger.set_runtime_stats_and_log()
    finally:
        sample_every(_SAMPLED_EVERY)


def _trainable(model: Any) -> list[Any]:
    return [parameter for parameter in model.module.parameters() if parameter.requires_grad]


def _can_be_restored(model: Any, order: list[int]) -> bool:
    if not hasattr(getattr(model, "reducer", None), "_rebuild_buckets"):
        return False
    stateful_hook = any(state is not None for _, state in getattr(model, "_comm_hooks", []))
    if stateful_hook or getattr(model, "static_graph", False):
        return False
    return sorted(order) == list(range(len(_trainable(model))))


def _restore(model: Any, order: list[int]) -> bool:
    if not _can_be_restored(model, order):
        return False
    import torch

    parameters = _trainable(model)
    before = [parameter.grad for parameter in parameters]
    prepare_forward = getattr(model.reducer, "prepare_for_forward", None)
    if prepare_forward is not None:
        prepare_forward()
    model.reducer.prepare_for_backward([])
    for number in order:
        part = parameters[number].reshape(-1)[:1]  # a parameter may have no element, or complex ones
        part.backward(torch.zeros_like(part))
    for parameter, gradient in zip(parameters, before, strict=True):
        parameter.grad = gradient
    return bool(model.reducer._rebuild_buckets())
