"""Part "stall": what a save costs the training that goes on meanwhile, and when it is durable."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.checkpoint.async_savers import (
    CloneAndThread,
    DcpAsync,
    Kept,
    OursAsync,
    Saver,
    TorchsnapshotAsync,
    WarmCopy,
    nvrx_async,
)
from benchmarks.checkpoint.loop import Lap, Loop, Mode, neighbours, slow_down
from benchmarks.checkpoint.machine import empty
from benchmarks.checkpoint.ready_memory import ReadyMemory
from benchmarks.checkpoint.rounds import Measured, Method, Part, measure
from benchmarks.checkpoint.state import State, bytes_in
from benchmarks.free_port import free_port

STEP_S = 0.1
LEAST_STEPS = 20
MODES: tuple[Mode, ...] = ("spare", "busy")

SAVERS: dict[str, Callable[[Kept], Saver]] = {
    "ours": lambda kept: OursAsync(kept, overlap=False),
    "ours, overlapped": lambda kept: OursAsync(kept, overlap=True),
    "DCP async_save": lambda kept: DcpAsync(kept, process=False, keeps_memory=False),
    "DCP, stager kept": lambda kept: DcpAsync(kept, process=False, keeps_memory=True),
    "DCP, process": lambda kept: DcpAsync(kept, process=True, keeps_memory=False),
    "DCP, process, stager kept": lambda kept: DcpAsync(kept, process=True, keeps_memory=True),
    "clone + torch.save in a thread": CloneAndThread,
    "torchsnapshot": TorchsnapshotAsync,
    "NVRx": lambda _: nvrx_async(),
}
COPIES: dict[str, Callable[[Kept], WarmCopy]] = {
    "a warm copy, 1 thread": lambda kept: WarmCopy(kept, threads=1),
    "a warm copy, 2 threads": lambda kept: WarmCopy(kept, threads=2),
}
"""The yardstick: nobody who holds on to a state by copying it stands still for less."""


def measure_stall(state: State, folder: Path, rounds: int) -> dict[str, Part]:
    """By how busy the training keeps the processor: "stall spare" and "stall busy"."""
    threads = torch.get_num_threads()
    parts = {}
    with alone_in_a_group():
        torch.set_num_threads(1)
        loop = Loop(STEP_S)
        for mode in MODES:
            ready = ReadyMemory(3 * bytes_in(state))
            with neighbours(mode), contextlib.closing(Kept(folder)) as kept, ready:
                methods: dict[str, Method] = {
                    name: _Trial(functools.partial(make, kept), loop, state, folder, ready).save_once
                    for name, make in SAVERS.items()
                }
                methods |= {name: functools.partial(_copied, make(kept), state) for name, make in COPIES.items()}
                parts[f"stall {mode}"] = measure(f"stall {mode}", methods, rounds)
        torch.set_num_threads(threads)
    empty(folder)
    return parts


class _Trial:
    """One saver with what it keeps from save to save. Made at its first save, which doesn't count."""

    def __init__(self, make: Callable[[], Saver], loop: Loop, state: State, folder: Path, ready: ReadyMemory) -> None:
        self._make = make
        self._loop = loop
        self._state = state
        self._folder = folder
        self._ready = ready
        self._saver: Saver | None = None
        self._names = (f"step-{number:010}.a1" for number in itertools.count())

    def save_once(self) -> Measured:
        if self._saver is None:
            self._saver = self._make()
        empty(self._folder)
        before = self._alone()
        with self._ready.lent():
            found = self._save(self._saver, before)
        empty(self._folder)
        return found

    def _save(self, saver: Saver, before: Lap) -> Measured:
        began_s = time.perf_counter()
        durable = saver.begin(self._state, next(self._names))
        stall_s = time.perf_counter() - began_s
        lap = self._loop.run(LEAST_STEPS, saver.before_update, durable.done)
        durable_s = durable.result() - began_s
        alone_s = statistics.fmean([*before.steps_s, *self._alone().steps_s])
        return {
            "stall_s": stall_s + lap.waited_s,
            "durable_s": durable_s,
            "lost_s": stall_s + lap.took_s - len(lap.steps_s) * alone_s,
            "slow_down": slow_down(lap, durable_s - stall_s, alone_s),
        }

    def _alone(self) -> Lap:
        return self._loop.run(LEAST_STEPS // 2, lambda: None, lambda: True)


def _copied(copy: WarmCopy, state: State) -> Measured:
    began_s = time.perf_counter()
    copy.copy(state)
    return {"stall_s": time.perf_counter() - began_s}


@contextlib.contextmanager
def alone_in_a_group() -> Iterator[None]:
    """DCP saves in a process of its own only where there is a process group."""
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()
