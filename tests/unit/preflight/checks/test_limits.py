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
    found = judge(Limits(**{**values, **changes}), ranks=8, rdma=rdma, total_bytes=100 * GIB)
    for each in found:
        complete(each)
    assert [(each.outcome.value, each.problem) for each in found] == expected


def test_limits_are_those_of_this_process(tmp_path: Path):
    found = only(limits, context(tmp_path))
    assert found.outcome in (Outcome.OK, Outcome.WARN)
    assert own_limits().files[0] == found.measured.get("open_files")
