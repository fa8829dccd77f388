"""States of FSDP2 and tensor parallelism, saved by four ranks and loaded by four, two and one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.distributed.assembly import put_together
from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.shards import Layouts
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.integrations.dcp import load
from tests.training.dcp_program import check_same

PROGRAM = Path(__file__).with_name("dcp_program.py")
ROOT = Path(__file__).parents[2]


def run(ranks: int, folder: Path, what: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            PROGRAM,
            folder,
            what,
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.count(f"{what} is right") == ranks


@pytest.fixture(scope="module")
def saved_by_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved in both ways, and loaded by the same four ranks in the same layout and in others."""
    folder = tmp_path_factory.mktemp("dcp")
    run(4, folder, "save")
    return folder


def test_two_ranks_go_on_with_what_four_have_saved(saved_by_four: Path) -> None:
    run(2, saved_by_four, "load")


@pytest.mark.parametrize("name", ["line", "square"])
def test_one_process_without_a_process_group_gets_whole_tensors(saved_by_four: Path, name: str) -> None:
    by_number, _ = torch.load(saved_by_four / f"{name}.pt", weights_only=True)
    receipts = [PartReceipt(**each) for each in json.loads((saved_by_four / f"{name}.json").read_text())]
    shelf = PartsShelf(Hdf5Store(saved_by_four), receipts)
    state = put_together(shelf, {key: shelf.skeleton(3)[key] for key in by_number}, Layouts())
    check_same(state, by_number)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("name", ["line", "square"])
def test_one_process_loads_dcps_checkpoint_into_plain_tensors(saved_by_four: Path, name: str) -> None:
    _, named = torch.load(saved_by_four / f"{name}.pt", weights_only=True)
    state: dict[str, Any] = {
        "model": {key: torch.zeros_like(value) for key, value in named["model"].items()},
        "optimizer": {"state": {key: dict.fromkeys(value) for key, value in named["optimizer"]["state"].items()}},
    }
    for key, moments in named["optimizer"]["state"].items():
        state["optimizer"]["state"][key] = {each: torch.zeros_like(value) for each, value in moments.items()}
    load(state, saved_by_four / f"{name}.dcp")
    check_same(state["model"], named["model"])
    check_same(state["optimizer"]["state"], named["optimizer"]["state"])
