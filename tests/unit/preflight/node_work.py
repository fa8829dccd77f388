"""Checks and parts of rounds that behave badly, for the node program to run; in processes of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.result import Finding, Problem, fail, ok


def fine(context: Context, tell: Tell) -> Iterable[Finding]:
    return [ok(f"fine on {context.node}", pid=os.getpid(), run_dir=str(context.run_dir), baseline=context.baseline)]


def hang(context: Context, tell: Tell) -> Iterator[Finding]:
    yield ok("the first half")
    tell("writing /scratch/x")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if os.fork() == 0:  # a helper of its own, that hangs with it
        Path(context.environment["LEFT_BEHIND"]).write_text(str(os.getpid()))
    time.sleep(3600)


def crash(context: Context, tell: Tell) -> Iterator[Finding]:
    tell("asking the driver")
    ctypes.string_at(0)
    yield ok("never")


def raise_(context: Context, tell: Tell) -> Iterator[Finding]:
    tell("reading /proc/x")
    yield ok("the first half")
    raise ValueError("no such\n line")


def leave(context: Context, tell: Tell) -> Iterable[Finding]:
    print("no module named torch", file=sys.stderr, flush=True)
    os._exit(3)


def exit_(context: Context, tell: Tell) -> Iterable[Finding]:
    sys.exit("I have had enough")


def silent(context: Context, tell: Tell) -> Iterable[Finding]:
    return []


def noisy(context: Context, tell: Tell) -> Iterable[Finding]:
    for stream in (sys.stdout, sys.stderr):
        stream.write("%pf1 0 1 1/1 00000000 AAAA%\nnoise without an end " * 5000)
    os.write(1, b"\xff\xfe" * 1000)
    return [ok("said it anyway")]


def chatterbox(context: Context, tell: Tell) -> Iterable[Finding]:
    while True:
        print("noise " * 1000)


def large(context: Context, tell: Tell) -> Iterable[Finding]:
    return [ok("much was measured", values=list(range(100_000)))]


def bad(context: Context, tell: Tell) -> Iterable[Finding]:
    return [fail(Problem.NODE, f"{context.node} is bad", "leave it out")]


def span(context: Context, tell: Tell) -> Iterable[Finding]:
    began_s = time.monotonic()
    time.sleep(0.3)
    return [ok("measured", began_s=began_s, ended_s=time.monotonic())]


def double(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    return {"node": context.node, "twice": assignment["number"] * 2}


def hang_in_round(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    tell("connecting to n3:15412")
    time.sleep(3600)
    return {}


def raise_in_round(context: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    raise OSError(5, "Input/output error")
