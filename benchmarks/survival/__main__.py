"""What becomes of a training that Slurm preempts, or whose time is over: the tutorials' ways, and ours.

    python -m benchmarks.survival [--runs N] [--markdown | --json]

On the embedded Slurm, 2 nodes with one rank each, DDP over gloo, steps of 0.2 s, a periodic save each 30 steps. Slow:
Slurm looks at limits and graces every 30 s. Several trials go on at a time; they mostly wait.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from benchmarks.report import progress, surroundings, write_results
from benchmarks.scratch_cluster import scratch_cluster
from benchmarks.survival.outcome import HEADER, Outcome, row_of
from benchmarks.survival.scenario import EPOCHS, SAVE_EVERY, SCENARIOS, STEP_S, Scenario, Tool, Trouble
from benchmarks.survival.trial import NODES, Trial
from benchmarks.text_table import markdown_table, plain_table
from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.config import ClusterSpec, Proctrack
from tests.slurm.jobs import Jobs

GRACE_S, KILL_WAIT_S = 15, 10
Results = list[tuple[Scenario, list[Outcome]]]


def trials(jobs: Jobs, runs: int, at_once: int) -> Results:
    with ThreadPoolExecutor(at_once) as pool:
        try:
            return _results(jobs, runs, pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those that go on are waited for, no other begins
            raise


def _results(jobs: Jobs, runs: int, pool: Executor) -> Results:
    free_nodes: SimpleQueue[str] = SimpleQueue()
    names = jobs.cluster.node_names
    for first in range(0, len(names), NODES):
        free_nodes.put(",".join(names[first : first + NODES]))

    def run(trial: Trial) -> Outcome:
        """On nodes of its own: whoever preempts one trial must not meet another."""
        nodes = free_nodes.get()
        try:
            return trial.run(nodes)
        finally:
            free_nodes.put(nodes)

    def begin(scenario: Scenario, name: str) -> Future[Outcome]:
        return pool.submit(run, Trial(jobs, scenario, jobs.folder / name))

    references = {tool: begin(Scenario(tool, Trouble.NONE), f"{tool.name}-NONE") for tool in Tool}
    disturbed = [
        (scenario, [begin(scenario, f"{scenario.tool.name}-{scenario.trouble.name}-{run + 1}") for run in range(runs)])
        for scenario in SCENARIOS
    ]
    weights = {tool: reference.result().weights for tool, reference in references.items()}
    return [
        (scenario, [_compared(trial.result(), weights[scenario.tool]) for trial in trials])
        for scenario, trials in disturbed
    ]


def _compared(outcome: Outcome, reference: str | None) -> Outcome:
    if outcome.weights is None:
        return outcome
    return dataclasses.replace(outcome, identical=outcome.weights == reference)


def measure(proctrack: Proctrack, runs: int, at_once: int) -> Results | None:
    """None where this machine can't track processes so."""
    if proctrack == "cgroup" and isinstance(answer := cgroup.probe(), cgroup.Unusable):
        progress(f"without proctrack/cgroup: {answer.why}")
        return None
    spec = ClusterSpec(nodes=NODES * at_once, proctrack=proctrack, grace_s=GRACE_S, kill_wait_s=KILL_WAIT_S)
    with scratch_cluster(spec) as jobs:
        return trials(jobs, runs, at_once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2, help="of each scenario under each proctrack")
    parser.add_argument("--proctrack", choices=["linuxproc", "cgroup"], nargs="+", default=["linuxproc", "cgroup"])
    parser.add_argument("--at-once", type=int, default=2, help="trials that go on at a time")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table for the README")
    form.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args()
    facts = surroundings()
    measured = {proctrack: measure(proctrack, options.runs, options.at_once) for proctrack in options.proctrack}
    done = {proctrack: results for proctrack, results in measured.items() if results is not None}
    value = {"surroundings": facts, "settings": settings(options), "results": as_values(done)}
    write_results("survival", value)
    if options.json:
        print(json.dumps(value, indent=1))
        return
    rows = [
        row_of(scenario.tool.value, scenario.trouble.value, proctrack, outcomes)
        for number in range(len(SCENARIOS))
        for proctrack, results in done.items()
        for scenario, outcomes in [results[number]]
    ]
    print((markdown_table if options.markdown else plain_table)(HEADER, rows))


def settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "runs": options.runs,
        "at_once": options.at_once,
        "nodes": NODES,
        "ranks_per_node": 1,
        "grace_s": GRACE_S,
        "kill_wait_s": KILL_WAIT_S,
        "epochs": EPOCHS,
        "step_s": STEP_S,
        "save_every_steps": SAVE_EVERY,
    }


def as_values(done: dict[str, Results]) -> list[dict[str, Any]]:
    return [
        {
            "tool": scenario.tool.value,
            "event": scenario.trouble.value,
            "proctrack": proctrack,
            "runs": [
                dataclasses.asdict(outcome) | {"saved_current": outcome.saved_current, "lost_steps": outcome.lost_steps}
                for outcome in outcomes
            ],
        }
        for proctrack, results in done.items()
        for scenario, outcomes in results
    ]


if __name__ == "__main__":
    main()
