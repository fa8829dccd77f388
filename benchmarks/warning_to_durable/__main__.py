"""From the warning to the durable checkpoint and on to the requeue, with its parts named, on the embedded Slurm.

    python -m benchmarks.warning_to_durable [--json]

One job a setting, warned by `scancel --signal=USR1`, requeued, resumed, warned again. Medians over the stops.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil

from benchmarks.report import surroundings, write_results
from benchmarks.scratch_cluster import scratch_cluster
from benchmarks.text_table import plain_table
from benchmarks.warning_to_durable.parts import PARTS, Stop, summary
from benchmarks.warning_to_durable.stop import NODES, RANKS_PER_NODE, stops_of
from slurm_resilience.sandbox.config import ClusterSpec


def table(stops: list[Stop]) -> str:
    told = summary(stops)
    rows = [[part, told.took[part].text(3), told.since[part].text(3), meaning] for part, meaning in PARTS.items()]
    return plain_table(["part", "took, s", "since the warning, s", "at its end"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=5, help="of each setting")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 200], help="of state in each rank")
    parser.add_argument("--step-seconds", type=float, nargs="+", default=[0.05, 0.5])
    parser.add_argument("--proctrack", choices=["linuxproc", "cgroup"], default="linuxproc")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    options = parser.parse_args()
    facts = surroundings()
    spec = ClusterSpec(nodes=NODES, proctrack=options.proctrack)
    results = []
    with scratch_cluster(spec) as jobs:
        for megabytes in options.megabytes:
            for step_s in options.step_seconds:
                stops = stops_of(jobs, megabytes=megabytes, step_s=step_s, count=options.stops)
                shutil.rmtree(jobs.folder / f"{megabytes:g}mb-{step_s:g}s")
                results.append((megabytes, step_s, stops))
    value = {
        "surroundings": facts,
        "settings": {"cluster": dataclasses.asdict(spec), "nodes": NODES, "ranks_per_node": RANKS_PER_NODE},
        "results": [
            {
                "megabytes_per_rank": megabytes,
                "step_s": step_s,
                "stops": [{part: round(stop.since(part), 4) for part in PARTS} for stop in stops],
                **dataclasses.asdict(summary(stops)),
            }
            for megabytes, step_s, stops in results
        ],
    }
    write_results("warning_to_durable", value)
    if options.json:
        print(json.dumps(value, indent=1))
        return
    for megabytes, step_s, stops in results:
        print(f"\n{megabytes:g} MB a rank, steps of {step_s:g} s, {len(stops)} stops, median (lowest to highest)\n")
        print(table(stops))


if __name__ == "__main__":
    main()
