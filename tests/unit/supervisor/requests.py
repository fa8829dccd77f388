"""What a user asks for, as srun-resilient's command line would have it."""

from __future__ import annotations

from slurm_resilience.launch.srun_options import split
from slurm_resilience.launch.training_command import understand
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.signals.ladder import Asked
from slurm_resilience.supervisor.request import Request


def request(
    words: str,
    *,
    mode: str = "auto",
    nproc: str | None = None,
    plain: bool = False,
    limits: Limits | None = None,
    asked: Asked | None = None,
) -> Request:
    line = split(words.split())
    return Request(
        srun=line,
        command=understand(line.command, plain=plain),
        words=line.command,
        run_dir=None,
        nproc_per_node=nproc,
        local_addr=None,
        interface=None,
        forward_signal=None,
        limits=limits or Limits(),
        asked=asked or Asked(),
        mode=mode,
        take_over=False,
        dry_run=False,
        requeue=True,
    )
