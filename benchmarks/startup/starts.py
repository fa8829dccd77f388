"""Starts of one program under Slurm, plain and with us, in turn within one job."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.event_log import Event, read_events
from benchmarks.figures import Figure, figure, paired_difference, paired_ratio
from benchmarks.job_processes import processes_of
from benchmarks.report import progress
from benchmarks.scratch_cluster import SRUN_RESILIENT, TORCHRUN, job_environment
from tests.slurm.jobs import ENDED, Jobs, wait_until

TRAIN = Path(__file__).with_name("train.py")
NODES, RANKS_PER_NODE = 2, 2
PATIENCE_S = 120.0
MOMENTS = ("first line", "met", "over")
"""The last rank's first line; all ranks through a barrier behind init_process_group; the command has returned."""

# The times of launch and return come from the same clock as the ranks': date's, in the batch script.
SCRIPT = """#!/bin/bash
start() {{ # NAME COMMAND...
	export BENCH_START=$1; shift
	mkdir -p "$BENCH_EVENTS/$BENCH_START"
	date +%s.%N > "$BENCH_EVENTS/$BENCH_START/launched"
	"$@"
	date +%s.%N > "$BENCH_EVENTS/$BENCH_START/over"
}}
plain() {{
	start "plain-$1" srun {torchrun} --nnodes={nodes} --nproc-per-node={ranks} --rdzv-backend=c10d \
		--rdzv-id="$1" --rdzv-endpoint=127.0.0.1:{port} --local-addr=127.0.0.1 {train} 0
}}
ours() {{
	start "ours-$1" {srun_resilient} --run-dir="runs/$1" --nproc-per-node={ranks} \
		torchrun {train} 0
}}
for pair in $(seq {pairs}); do
	if [ $((pair % 2)) = 0 ]; then plain "$pair"; ours "$pair"; else ours "$pair"; plain "$pair"; fi
done
"""


@dataclass(frozen=True)
class Start:
    """Seconds from the launch to each of MOMENTS."""

    after_s: dict[str, float]


@dataclass(frozen=True)
class Compared:
    plain: Figure
    ours: Figure
    difference: Figure
    ratio: Figure


def pairs_of_starts(jobs: Jobs, pairs: int, port: int) -> tuple[list[Start], list[Start]]:
    """Plain ones and ours, pair by pair."""
    script = SCRIPT.format(
        torchrun=TORCHRUN,
        srun_resilient=SRUN_RESILIENT,
        nodes=NODES,
        ranks=RANKS_PER_NODE,
        port=port,
        train=TRAIN,
        pairs=pairs,
    )
    folder = jobs.folder / "events"
    job = jobs.submit(
        script, env=job_environment() | {"BENCH_EVENTS": str(folder)}, nodes=NODES, ntasks=NODES, job_name="starts"
    )
    for pair in range(1, pairs + 1):
        both = [folder / f"{kind}-{pair}" for kind in ("plain", "ours")]
        wait_until(
            lambda both=both: all(_is_over(start) for start in both) or jobs.state(job) in ENDED,  # type: ignore[misc]
            lambda: f"a start has no end: {jobs.output(job)[-2000:]}",
            PATIENCE_S,
        )
        progress(f"pair {pair} of {pairs}")
    jobs.wait_end(job)
    numbers = range(1, pairs + 1)
    plain, ours = ([_start(folder / f"{kind}-{pair}") for pair in numbers] for kind in ("plain", "ours"))
    return plain, ours


def _is_over(folder: Path) -> bool:
    return (folder / "over").exists() and bool((folder / "over").read_text())


def _start(folder: Path) -> Start:
    launched_s = float((folder / "launched").read_text())
    events: list[Event] = [event for path in folder.glob("rank-*.jsonl") for event in read_events(path)]
    told = {what: [event.time_s for event in events if event.what == what] for what in ("first line", "met")}
    missing = [what for what, times in told.items() if len(times) != NODES * RANKS_PER_NODE]
    if missing:
        raise RuntimeError(f"{folder.name}: not all ranks told of {missing}")
    over_s = float((folder / "over").read_text())
    return Start({**{what: max(times) - launched_s for what, times in told.items()}, "over": over_s - launched_s})


def compared(plain: Sequence[Start], ours: Sequence[Start]) -> dict[str, Compared]:
    result = {}
    for moment in MOMENTS:
        before = [start.after_s[moment] for start in plain]
        after = [start.after_s[moment] for start in ours]
        result[moment] = Compared(
            figure(before), figure(after), paired_difference(before, after), paired_ratio(before, after)
        )
    return result


@dataclass(frozen=True)
class Memory:
    """In MiB."""

    now: float
    peak: float


def memory_of_ours(jobs: Jobs, *, hold_s: float = 8.0) -> dict[str, Memory]:
    """What the supervisor and the node agents of a real job hold while its step runs; the largest of a kind."""
    folder = jobs.folder / "memory"
    script = (
        f"#!/bin/bash\nexec {SRUN_RESILIENT} --run-dir=runs/memory --nproc-per-node={RANKS_PER_NODE}"
        f" {sys.executable} {TRAIN} {hold_s:g}\n"
    )
    environment = job_environment() | {"BENCH_EVENTS": str(folder), "BENCH_START": "start"}
    job = jobs.submit(script, env=environment, nodes=NODES, job_name="memory")
    ranks = NODES * RANKS_PER_NODE

    def all_met() -> bool:
        events = [event for path in (folder / "start").glob("rank-*.jsonl") for event in read_events(path)]
        return sum(event.what == "met" for event in events) == ranks

    wait_until(all_met, lambda: f"the ranks never met: {jobs.output(job)[-2000:]}", PATIENCE_S)
    time.sleep(hold_s / 2)
    processes = processes_of(job)
    found = {kind: [memory(process.pid) for process in processes[kind]] for kind in ("supervisor", "agent")}
    jobs.wait_end(job)
    return {kind: max(held, key=lambda one: one.peak) for kind, held in found.items()}


def memory(pid: int) -> Memory:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Vm")
    )
    now, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return Memory(round(now, 1), round(peak, 1))
