"""A rank that says when it got control, and when all ranks had met; then it holds still for as long as it is told."""

import os
import sys
import time
from pathlib import Path

from benchmarks.event_log import EventLog

events = EventLog(Path(os.environ["BENCH_EVENTS"]) / os.environ["BENCH_START"] / f"rank-{os.environ['RANK']}.jsonl")
events.tell("first line")

import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
dist.barrier()
events.tell("met")
time.sleep(float(sys.argv[1]))
dist.destroy_process_group()
