"""An attempt's plan, which outlives its attempt: whoever comes next reads it, perhaps with another version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind, Plan, Rendezvous, StopTimes, read_plan, write_plan

PLAN = Plan(
    run="/runs/my run, 100%",
    run_id="0123456789abcdef",
    attempt=3,
    kind=CommandKind.TORCHRUN,
    argv=("train.py", "--name", "a b\nc,d%"),
    python="/usr/bin/python3",
    nodes=2,
    nproc_per_node="gpu",
    rendezvous=Rendezvous("n1", 17001, "0123456789abcdef.3"),
    local_addr=None,
    interface=None,
    forward_signal=None,
    end_s=1.7e9,
    stop_before_end_s=60.0,
    times=StopTimes(27.0, 600.0, 7.5, 10.0),
    runtime_parent="/dev/shm",
    supervisor_host="n1",
    supervisor_boot_id="boot",
    supervisor_pid=4711,
    supervisor_started_ticks=1,
    can_requeue=True,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_plan(tmp_path / "plan.json", PLAN)
    return tmp_path / "plan.json"


def test_what_was_planned_is_read(path: Path) -> None:
    assert read_plan(path) == PLAN


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"a_field_of_tomorrow": 1}, {"kind": "ballet"}, {"limits": {"yawns": 3}}, {"times": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_plan_of_another_version_is_refused_in_a_sentence(path: Path, change: dict[str, object]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigurationError, match="written by another version"):
        read_plan(path)


@pytest.mark.parametrize("text", ["", "{", "7", "[]", "null"])
def test_what_is_no_plan_is_refused_in_a_sentence(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"plan\.json"):
        read_plan(path)
