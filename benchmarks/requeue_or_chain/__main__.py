"""How soon a run goes on: the same job requeued, against a successor that waits, on the embedded Slurm.

    python -m benchmarks.requeue_or_chain [--json]

Two runs side by side, one node each, with Slurm's own default settings for what decides it (cred_expire, KillWait and
the scheduler's intervals). Both are warned (USR1) again and again, in pairs. Measured is the time from the line in the
journal that ends an attempt to the first line of the next batch script, and to the next attempt's first step. The
program under it is a loop without torch: what a training needs to start is the same in both, and comes on top.
"""

from __future__ import annotations

import argparse
import dataclasses
import json

from benchmarks.figures import figure, paired_ratio
from benchmarks.report import progress, surroundings, write_results
from benchmarks.requeue_or_chain.link import Run
from benchmarks.scratch_cluster import scratch_cluster
from benchmarks.text_table import plain_table
from slurm_resilience.sandbox.config import ClusterSpec

DEFAULTS = ClusterSpec(
    nodes=2,
    kill_wait_s=30,
    cred_expire_s=120,
    slurmd_timeout_s=300,
    min_job_age_s=300,
    sched_interval_s=60,
    sched_min_interval_us=2,
    bf_interval_s=30,
)
"""As a slurm.conf that says nothing about them."""
MOMENTS = {"batch script": "the next batch script's first line", "first step": "the next attempt's first step"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    options = parser.parse_args()
    facts = surroundings()
    found: dict[str, list[dict[str, float]]] = {"requeue": [], "chain": []}
    with scratch_cluster(DEFAULTS) as jobs:
        runs = {way: Run.submit(jobs, way) for way in found}
        for pair in range(1, options.pairs + 1):
            for way, run in runs.items():
                run.warn(pair)
                found[way].append(run.gaps_s(pair))
                progress(f"{way}, pair {pair}: {found[way][-1]['first step']:.1f} s")
    took = {way: {moment: [gap[moment] for gap in gaps] for moment in MOMENTS} for way, gaps in found.items()}
    sooner = {moment: paired_ratio(took["chain"][moment], took["requeue"][moment]) for moment in MOMENTS}
    value = {
        "surroundings": facts,
        "settings": {"cluster": dataclasses.asdict(DEFAULTS)},
        "pairs_s": took,
        "median_s": {
            way: {moment: dataclasses.asdict(figure(gaps)) for moment, gaps in moments.items()}
            for way, moments in took.items()
        },
        "times_sooner": {moment: dataclasses.asdict(ratio) for moment, ratio in sooner.items()},
    }
    write_results("requeue_or_chain", value)
    if options.json:
        print(json.dumps(value, indent=1))
        return
    print(f"\nfrom the end of an attempt, {options.pairs} pairs, s: median (lowest to highest)\n")
    rows = [
        [meaning, *(figure(took[way][moment]).text() for way in took), sooner[moment].text(0)]
        for moment, meaning in MOMENTS.items()
    ]
    print(plain_table(["until", *took, "times sooner"], rows))


if __name__ == "__main__":
    main()
