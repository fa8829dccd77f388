"""The goals of the checkpoint store, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.checkpoint.goals import Goal, Side

_ARENA, _SYNCHRONOUS = "ours, from the snapshot", "ours, synchronous"


def goals() -> Iterator[Goal]:
    for method in (_ARENA, _SYNCHRONOUS):
        for than, limit in (
            ("raw, O_DIRECT", 0.95),
            ("torch.save", 2.5),
            ("safetensors", 1.8),
            ("DCP, 2 threads", 1.8),
        ):
            yield _write(method, than, limit)
    for mode in ("spare", "busy"):
        part = f"stall {mode}"
        yield _stall(part, "stall_s", "DCP async_save", 0.15)
        yield _stall(part, "stall_s", "a warm copy, 1 thread", 1.0)
        yield _stall(part, "stall_s", "a warm copy, 2 threads", 1.0)
        overlapped = Side(part, "ours, overlapped", "stall_s")
        yield Goal(f"{part}: hidden by a step of a second, s", overlapped, None, "at most", 0.020)
        yield _stall(part, "lost_s", "DCP async_save", 0.15)
    slower = Side("stall spare", "ours", "slow_down")
    yield Goal("stall spare: steps during a save, over steps alone", slower, None, "at most", 1.10)
    memory = Side("memory", "ours", "images")
    yield Goal("memory: extra, over the size of the state", memory, None, "at most", 1.05)
    yield _load("load cold", "torch.load", 1.2)
    yield _load("load cold", "safetensors, copied", 2.0)
    yield _load("load warm", "safetensors, copied", 0.7)
    ours, raw = Side("stop", _SYNCHRONOUS, "took_s"), Side("stop", "raw, O_DIRECT", "took_s")
    yield Goal("stop: seconds until durable, over those of raw", ours, raw, "at most", 1.2)


def _write(method: str, than: str, limit: float) -> Goal:
    of, other = Side("write", method, "gb_per_s"), Side("write", than, "gb_per_s")
    return Goal(f"write: speed of {method}, over {than}", of, other, "at least", limit)


def _stall(part: str, quantity: str, than: str, limit: float) -> Goal:
    what = {"stall_s": "stall", "lost_s": "training time lost"}[quantity]
    return Goal(
        f"{part}: {what}, over {than}", Side(part, "ours", quantity), Side(part, than, quantity), "at most", limit
    )


def _load(part: str, than: str, limit: float) -> Goal:
    of, other = Side(part, "ours, verified", "gb_per_s"), Side(part, than, "gb_per_s")
    return Goal(f"{part}: speed of ours, verified, over {than}", of, other, "at least", limit)
