"""What the shell calls ulimit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.preflight.checks.node.limits import Limits, judge, limits, own_limits
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import (
    GIB,
    MIB,
    complete,
    context,
    only,
    tree,
)

FINE = Limits((None, None), (20000, 20000), (None, None), (0, None))


@pytest.mark.parametrize(
    ("changes", "rdma", "expected"),
    [
        ({}, True, []),
        ({"pinned_bytes": (8 * MIB, 8 * MIB)}, False, []),  # nobody needs it
        ({"pinned_bytes": (8 * MIB, 8 * MIB)}, True, [("fail", Problem.NODE)]),
        ({"pinned_bytes": (8 * MIB, None)}, True, [("fail", Problem.USER)]),
        ({"pinned_bytes": (50 * GIB, 50 * GIB)}, True, [("warn", Problem.NODE)]),
        ({"pinned_bytes": (200 * GIB, 200 * GIB)}, True, []),
        ({"files": (2048, 2048)}, False, []),
        ({"files": (2047, 4096)}, False, [("warn", Problem.USER)]),
        ({"processes": (512, 512)}, False, []),
        ({"processes": (511, 512)}, False, [("warn", Problem.USER)]),
    ],
)
def test_each_limit(changes: dict[str, Any], rdma: bool, expected: list[tuple[str, Problem]]):
    values = {name: getattr(FINE, name) for name in ("pinned_bytes", "files", "processes", "core_bytes")}
    found = judge(Limits(**{**values, **changes}), ranks=8, rdma=rdma, on_gpus=True, total_bytes=100 * GIB)
    for each in found:
        complete(each)
    assert [(each.outcome.value, each.problem) for each in found] == expected


def test_limits_are_those_of_this_process(tmp_path: Path):
    found = only(limits, context(tmp_path))
    assert found.outcome in (Outcome.OK, Outcome.WARN)
    assert own_limits().files[0] == found.measured.get("open_files")


@pytest.mark.parametrize(
    ("state", "environment", "gpus", "outcome"),
    [
        ("4: ACTIVE", {}, 8, "fail"),
        ("4: ACTIVE", {}, None, "warn"),  # a card for Ethernet has an RDMA device, too, and Gloo needs none
        ("4: ACTIVE", {"NCCL_IB_DISABLE": "1"}, 8, "ok"),
        ("1: DOWN", {}, 8, "ok"),
    ],
)
def test_locked_memory_counts_where_rdma_would_be_used(
    tmp_path: Path, state: str, environment: dict[str, str], gpus: int | None, outcome: str
):
    port = "sys/class/infiniband/mlx5_0/ports/1"
    tree(tmp_path, {f"{port}/state": state, f"{port}/phys_state": "5: LinkUp", f"{port}/link_layer": "Ethernet"})
    little = Limits((8 * MIB, None), (20000, 20000), (None, None), (0, None))

    found = only(limits, context(tmp_path, environment, gpus=gpus), ask=lambda: little)

    assert found.outcome.value == outcome
