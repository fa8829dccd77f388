"""A rank whose steps do next to nothing and whose state has the size it is told."""

import argparse
import atexit
import os
import time
from pathlib import Path

from benchmarks.event_log import EventLog

events = EventLog(Path(os.environ["BENCH_EVENTS"]) / f"rank-{os.environ['RANK']}.jsonl")
atexit.register(events.tell, "exit handlers ran")  # registered before all others: runs last

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from slurm_resilience.training import open_run  # noqa: E402


class Ballast:
    """State that is only there to be saved."""

    def __init__(self, megabytes: float) -> None:
        self.tensor = torch.rand(int(megabytes * 1e6 / 4))

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.tensor.copy_(state["tensor"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, required=True)
    parser.add_argument("--step-seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.rand(4096, 8)), batch_size=4, num_workers=options.workers)
    try:
        with open_run(save_every_minutes=None) as run:
            run.register(model=model.module, optimizer=optimizer, ballast=Ballast(options.megabytes))
            for _epoch in run.epochs(1000):
                for (batch,) in run.batches(loader):
                    model(batch).square().mean().backward()
                    optimizer.step()
                    time.sleep(options.step_seconds)
                    events.tell("step", step=run.step + 1, attempt=run.attempt)
    finally:
        events.tell("left the with block")


if __name__ == "__main__":
    main()
