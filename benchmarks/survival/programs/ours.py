"""The same training with the library: no handlers, no save, no resume."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.survival.programs.training import Teller, make_loader, make_model, parse_options, train_step
from slurm_resilience.training import open_run


def main() -> None:
    options = parse_options()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    teller = Teller(rank)
    torch.set_num_threads(1)

    bare_model = make_model()
    model = DistributedDataParallel(bare_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = make_loader(dist.get_world_size(), rank, options.workers)
    with open_run(save_every_steps=options.save_every) as run:
        run.register(model=bare_model, optimizer=optimizer)
        run.resume()
        teller.began(run.step)
        for _epoch in run.epochs(options.epochs):
            for batch in run.batches(loader):
                train_step(model, optimizer, batch, options.step_seconds)
                teller.stepped(run.step + 1)
    teller.finished(run.step, bare_model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
