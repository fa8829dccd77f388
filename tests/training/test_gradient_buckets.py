"""DDP's buckets are laid out after a resume as they were, on more ranks than two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from slurm_resilience.training.gradient_buckets import GradientBuckets

PROGRAM = Path(__file__).with_name("bucket_program.py")


# DDP tells of its second layout from the third step on, or, where gradients are accumulated first, 100 steps later.
@pytest.mark.parametrize(("stop_after", "first_exchange"), [(1, 0), (2, 0), (14, 12)])
def test_four_ranks_resume_with_the_same_roundings(stop_after: int, first_exchange: int) -> None:
    words = [str(PROGRAM), str(stop_after), str(first_exchange)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=Path(__file__).parents[2],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_model_without_ddp_has_no_buckets_and_what_is_asked_of_it_is_named() -> None:
    buckets = GradientBuckets({"model": nn.Linear(2, 2), "optimizer": torch.optim.SGD([torch.zeros(1)], lr=1)})
    assert buckets.capture() == {}
    assert buckets.restore({"model": [1, 0]}) == ["model"]
    assert buckets.restore({"model": [1, 0]}) == []  # said once
