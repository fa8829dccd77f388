"""What starting by `srun-resilient torchrun` costs more than by `srun torchrun`, on the embedded Slurm.

    python -m benchmarks.startup [--json]

From the launch in the batch script to the first line of the training script on the last rank, and to all ranks having
met; in pairs, interleaved. Besides: the command line's answer times, the memory of supervisor and node agents.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from benchmarks.free_port import free_port
from benchmarks.report import progress, surroundings, write_results
from benchmarks.scratch_cluster import scratch_cluster
from benchmarks.startup.commands import answer_times
from benchmarks.startup.starts import NODES, RANKS_PER_NODE, compared, memory_of_ours, pairs_of_starts
from benchmarks.text_table import plain_table
from slurm_resilience.sandbox.config import ClusterSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=15, help="of the command line's answer times")
    parser.add_argument("--proctrack", choices=["linuxproc", "cgroup"], default="linuxproc")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    options = parser.parse_args()
    facts = surroundings()
    progress("the command line")
    commands = answer_times(options.rounds)
    spec = ClusterSpec(nodes=NODES, proctrack=options.proctrack)
    with scratch_cluster(spec) as jobs:
        memory = memory_of_ours(jobs)
        plain, ours = pairs_of_starts(jobs, options.pairs, free_port())
    moments = compared(plain, ours)
    value: dict[str, Any] = {
        "surroundings": facts,
        "settings": {"cluster": dataclasses.asdict(spec), "nodes": NODES, "ranks_per_node": RANKS_PER_NODE},
        "starts_s": {name: dataclasses.asdict(moment) for name, moment in moments.items()},
        "pairs_s": {"plain": [start.after_s for start in plain], "ours": [start.after_s for start in ours]},
        "commands_ms": {name: dataclasses.asdict(command) for name, command in commands.items()},
        "memory_mib": {kind: dataclasses.asdict(held) for kind, held in memory.items()},
    }
    write_results("startup", value)
    if options.json:
        print(json.dumps(value, indent=1))
        return
    print(f"\nfrom the launch, {options.pairs} pairs, s: median (lowest to highest)\n")
    header = ["until", "srun torchrun", "srun-resilient torchrun", "difference", "ratio"]
    rows = [
        [name, *(one.text() for one in (moment.plain, moment.ours, moment.difference, moment.ratio))]
        for name, moment in moments.items()
    ]
    print(plain_table(header, rows))
    print()
    answers = [[name, answer.wall.text(0), answer.cpu.text(0)] for name, answer in commands.items()]
    print(plain_table(["command", "ms", "of the processor, ms"], answers))
    print()
    memory_rows = [[kind, f"{held.now:.1f}", f"{held.peak:.1f}"] for kind, held in memory.items()]
    print(plain_table(["process", "resident, MiB", "peak, MiB"], memory_rows))


if __name__ == "__main__":
    main()
