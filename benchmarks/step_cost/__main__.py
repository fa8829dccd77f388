"""What a step costs more with a run around the loop, when nothing happens: no stop, no save.

The same loop over the same items, bare and with a run, interleaved, several rounds; medians. Alone, and as one of two
ranks over gloo with real exchanges about once a second. Nothing is computed in a step, so that only the cost is seen;
`--work-us` makes steps last longer, as real ones do.

    python -m benchmarks.step_cost --json
"""

import argparse
import itertools
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import StopPageWriter

REPOSITORY = Path(__file__).resolve().parents[2]


def work(microseconds: float) -> None:
    if microseconds:
        until = time.perf_counter() + microseconds / 1e6
        while time.perf_counter() < until:
            pass


def now() -> tuple[float, float]:
    """On the wall's clock, and of the processor's time of all threads: the second is the steadier where it is busy."""
    return time.perf_counter(), time.process_time()


def measure(options: argparse.Namespace) -> None:
    """In a rank: microseconds a step, bare and with the run, round by round."""
    import torch
    import torch.distributed as dist

    from slurm_resilience.training import open_run

    torch.set_num_threads(1)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    model = torch.nn.Linear(4, 4)
    rounds = []
    with open_run(save_every_minutes=60) as run:
        run.register(model=model)
        items = range(options.steps)
        for _ in run.batches(items):
            work(options.work_us)  # the first exchanges are waited for: they are not what a step costs
        for _ in range(options.rounds):
            moments = [now()]
            for _ in items:
                work(options.work_us)
            moments.append(now())
            for _ in run.batches(items):
                work(options.work_us)
            moments.append(now())
            bare, ours = (
                [(after - before) / options.steps * 1e6 for before, after in zip(begin, end, strict=True)]
                for begin, end in itertools.pairwise(moments)
            )
            rounds.append({"bare_us": bare[0], "added_us": ours[0] - bare[0], "added_cpu_us": ours[1] - bare[1]})
    if os.environ["RANK"] == "0":
        print(json.dumps(rounds), flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_ranks(world_size: int, options: argparse.Namespace) -> list[dict[str, float]]:
    """Start the ranks of one attempt as srun-resilient would, with the node's pages in memory."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as runtime:
        run = RunDirectory(Path(folder) / "run")
        journal = Journal(run)
        journal.create("step_cost")
        journal.append(AttemptStarted(1, "local", tuple(sys.argv), platform.node()))
        with StopPageWriter(Path(runtime)):
            processes = []
            port = free_port()
            for rank in range(world_size):
                given = {
                    "RANK": rank,
                    "LOCAL_RANK": rank,
                    "WORLD_SIZE": world_size,
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "PYTHONPATH": REPOSITORY,
                    "SLURM_RESILIENCE_RUN": run.path,
                    "SLURM_RESILIENCE_ATTEMPT": 1,
                    "SLURM_RESILIENCE_RUNTIME": runtime,
                }
                environment = os.environ | {name: str(value) for name, value in given.items()}
                command = [sys.executable, __file__, "--rank", *options.given]
                processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
            outputs = [process.communicate()[0] for process in processes]
            if any(process.returncode for process in processes):
                raise SystemExit("a rank failed")
            rounds: list[dict[str, float]] = json.loads(outputs[0].splitlines()[-1])
            return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work-us", type=float, default=0.0, help="busy work a step")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.given = [f"--steps={options.steps}", f"--rounds={options.rounds}", f"--work-us={options.work_us}"]
    if options.rank:
        measure(options)
        return
    result = {"steps": options.steps, "rounds": options.rounds, "work_us": options.work_us, "cpus": os.cpu_count()}
    for name, world_size in (("alone", 1), ("two_ranks_gloo", 2)):
        rounds = run_ranks(world_size, options)
        added = [each["added_us"] for each in rounds]
        result[name] = {
            "bare_us": round(statistics.median(each["bare_us"] for each in rounds), 3),
            "added_us": round(statistics.median(added), 3),
            "added_us_least": round(min(added), 3),
            "added_us_most": round(max(added), 3),
            "added_cpu_us": round(statistics.median(each["added_cpu_us"] for each in rounds), 3),
        }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for name in ("alone", "two_ranks_gloo"):
        measured = result[name]
        print(
            f"{name}: a step costs {measured['added_us']} µs more "
            f"(median of {options.rounds} rounds, {measured['added_us_least']} to {measured['added_us_most']}; "
            f"processor time {measured['added_cpu_us']} µs)"
        )


if __name__ == "__main__":
    main()
