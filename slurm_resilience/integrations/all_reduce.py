"""One rank of preflight's all-reduce: a program of its own, run by the interpreter of the training.

It needs nothing of this package, only torch: that interpreter may not have the package. It is given its part as JSON on
the command line (see `preflight/rounds/all_reduce.py`), and prints what came out as one line of JSON, whatever happens,
at the latest when its time is up. Groups of two come first and then the group of all, each set up anew: so a node that
can't take part spoils its own pairs, and not what can be found out about the others.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

MARK = "slurm-resilience all-reduce: "
"""Before the line: libraries print to the same place."""
_ARRIVE_PART, _GROUP_PART = 0.5, 0.4
"""Of the time limit: for all to come to the store, once the first is there, and for one group at most."""
_SIZE_S = 1.0
"""For one size in one group, about: by it the number of repetitions is chosen, and whether a larger size is tried."""
_MOST_REPETITIONS = 10
_KEPT: list[Any] = []
"""Groups that are done with. Gloo's destructor waits, with the interpreter's lock held, for threads that may want that
lock (mended by pytorch#154976, of June 2025): on Debian 13's torch 2.6 it mostly hung. We leave without it."""


@dataclass
class Found:
    """What is printed. `stage`: `import`, `store`, `groups`, then `done`."""

    rank: int
    stage: str = "import"
    error: str | None = None
    backend: str | None = None
    arrived: list[int] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    import_s: float | None = None
    now: str | None = None
    """What it was at when the time was up."""


def main(words: list[str]) -> int:
    part: dict[str, Any] = json.loads(words[0])
    found = Found(int(part["rank"]))
    os.nice(5)
    end = time.monotonic() + float(part["limit_s"])
    watchdog = threading.Timer(float(part["limit_s"]), lambda: _leave(found))
    watchdog.daemon = True
    watchdog.start()
    try:
        _take_part(part, found, end)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is to be told
        found.error = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    _leave(found)
    return 0


def _leave(found: Found) -> None:
    """At once: a library's threads, or a collective that hangs, would not let us go."""
    sys.stdout.write(f"{MARK}{json.dumps(asdict(found))}\n")
    sys.stdout.flush()
    os._exit(0)


def _take_part(part: dict[str, Any], found: Found, end: float) -> None:
    begun = time.monotonic()
    import torch
    import torch.distributed

    dist: Any = torch.distributed
    found.import_s = round(time.monotonic() - begun, 3)
    torch.set_num_threads(1)
    rank, ranks = int(part["rank"]), int(part["ranks"])
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    found.stage = "store"
    found.now = f"connecting to {part['host']}:{part['port']}"
    store = dist.TCPStore(
        str(part["host"]),
        int(part["port"]),
        None,
        rank == 0,
        timedelta(seconds=max(1.0, end - time.monotonic() - 2)),
        wait_for_workers=False,
    )
    found.now = "waiting for the others"
    store.set(f"nccl/{rank}", str(int(has_nccl)))
    patience_s = float(part.get("arrive_s", float(part["limit_s"]) * _ARRIVE_PART))
    # Only the first one's patience counts: the others wait for its word, however late it has come itself.
    until = min(time.monotonic() + patience_s, end - 1) if rank == 0 else end - 2
    found.arrived = _meet(store, "here", rank, ranks, until, end)
    if rank == 0:  # one without a GPU is enough for all to do without
        everybody = all(store.get(f"nccl/{one}") == b"1" for one in found.arrived)
        store.set("backend", "nccl" if everybody else "gloo")
    found.backend = store.get("backend").decode()
    device = torch.device("cuda", 0) if found.backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    found.stage = "groups"
    for turn, groups in enumerate(part["turns"]):
        own = next((group for group in groups if rank in group), None)
        if own is not None and set(own) <= set(found.arrived):
            found.now = f"all-reduce of ranks {', '.join(map(str, own))}"
            limit_s = max(1.0, min(float(part["limit_s"]) * _GROUP_PART, end - time.monotonic() - 1))
            sizes = part["pair_sizes" if len(own) < ranks else "sizes"][found.backend]
            outcome = _group(store, turn, rank, own, sizes, device, found.backend, limit_s)
            found.groups.append({"turn": turn, "ranks": own, **outcome})
        _meet(store, f"turn-{turn}", rank, len(found.arrived), end - 1, end, of=found.arrived)
    found.stage, found.now = "done", None
    _meet(store, "bye", rank, len(found.arrived), min(end, time.monotonic() + 3), end, of=found.arrived)


def _meet(
    store: Any, key: str, rank: int, ranks: int, until: float, end: float, *, of: list[int] | None = None
) -> list[int]:
    """Wait for all, until `until`; who has come. The first rank says so to the others, that all know the same."""
    store.set(f"{key}/{rank}", "1")
    everybody = list(range(ranks)) if of is None else of
    if rank != everybody[0]:
        store.wait([f"{key}/go"], timedelta(seconds=max(0.5, min(end, until + 2) - time.monotonic())))
        return [int(one) for one in json.loads(store.get(f"{key}/go"))]
    here: list[int] = []
    while True:
        here = [one for one in everybody if one in here or store.check([f"{key}/{one}"])]
        if len(here) == len(everybody) or time.monotonic() > until:
            break
        time.sleep(0.01)
    store.set(f"{key}/go", json.dumps(here))
    return here


def _group(
    store: Any, turn: int, rank: int, ranks: list[int], sizes: list[int], device: Any, backend: str, limit_s: float
) -> dict[str, Any]:
    """Times and sums of one group; `error` where it could not be formed, or broke."""
    import torch.distributed

    dist: Any = torch.distributed
    own = dist.PrefixStore(f"group-{turn}-{ranks[0]}", store)
    measures: list[dict[str, Any]] = []
    try:
        dist.init_process_group(
            backend, store=own, rank=ranks.index(rank), world_size=len(ranks), timeout=timedelta(seconds=limit_s)
        )
        _KEPT.append(dist.group.WORLD)
        try:
            for size in sizes:
                if measures and measures[-1]["worst_s"] * size / measures[-1]["bytes"] > _SIZE_S:
                    break  # a slow link shows in the small sizes; all ranks know the same times, and stop alike
                measures.append(_measure(size, ranks.index(rank), len(ranks), device))
        finally:
            dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - the backends raise what they like
        return {"measures": measures, "error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    return {"measures": measures}


def _measure(size_bytes: int, rank: int, ranks: int, device: Any) -> dict[str, Any]:
    """All-reduce of `size_bytes`, one time to warm up. The sums are of small whole numbers, so they must be exact.

    `bus_bytes_per_s` is algorithm bandwidth times 2(n-1)/n: what each link carries, comparable over numbers of ranks
    (NVIDIA/nccl-tests, doc/PERFORMANCE.md, "AllReduce"). `worst_s` is the slowest rank's best time, the same for all.
    """
    import torch

    count = max(1, size_bytes // 4)
    pattern = torch.arange(count, dtype=torch.float32, device=device).remainder_(97)
    expected = pattern * (ranks * (ranks + 1) // 2)
    wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wrong = 0

    def once() -> float:
        nonlocal wrong
        values = pattern * (rank + 1)
        wait()
        begun = time.monotonic()
        torch.distributed.all_reduce(values)
        wait()
        took_s = time.monotonic() - begun
        wrong = max(wrong, int((values != expected).sum().item()))
        return took_s

    repetitions = max(1, min(_MOST_REPETITIONS, int(_SIZE_S / max(1e-6, _agreed(once(), device)))))
    times = [once() for _ in range(repetitions)]
    best = max(min(times), 1e-9)
    return {
        "bytes": size_bytes,
        "median_s": round(statistics.median(times), 6),
        "best_s": round(best, 6),
        "worst_s": round(_agreed(best, device), 6),
        "bus_bytes_per_s": round(size_bytes / best * 2 * (ranks - 1) / ranks),
        "wrong": wrong,
    }


def _agreed(seconds: float, device: Any) -> float:
    """The longest time of all ranks."""
    import torch
    import torch.distributed

    value = torch.tensor([seconds], dtype=torch.float64, device=device)
    torch.distributed.all_reduce(value, op=torch.distributed.ReduceOp.MAX)
    return float(value.item())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
