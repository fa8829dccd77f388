"""InfiniBand and RoCE, as /sys would show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.preflight.checks.fabric.infiniband import infiniband
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import context, only, tree


def port(
    root: Path,
    device: str,
    state: str = "4: ACTIVE",
    link: str = "5: LinkUp",
    rate: str = "400 Gb/sec (4X NDR)",
    **more: Any,
) -> None:
    folder = f"sys/class/infiniband/{device}"
    files = {
        f"{folder}/ports/1/state": state,
        f"{folder}/ports/1/phys_state": link,
        f"{folder}/ports/1/rate": rate,
        f"{folder}/ports/1/link_layer": more.get("layer", "InfiniBand"),
        f"{folder}/ports/1/counters/symbol_error": "17",
    }
    if "board" in more:
        files[f"{folder}/board_id"] = more["board"]
    if "downs" in more:
        files[f"{folder}/ports/1/counters/link_downed"] = str(more["downs"])
    if "flags" in more:
        files[f"{folder}/device/net/ens1/flags"] = more["flags"]
    tree(root, files)


DOWN = {"state": "1: DOWN", "link": "2: Polling"}
OFF = {"state": "1: DOWN", "link": "3: Disabled"}


def test_where_there_is_no_infiniband_nothing_is_unhealthy(tmp_path: Path):  # gpud PR#140
    assert only(infiniband, context(tmp_path)).outcome is Outcome.SKIPPED


def test_ports_that_work_are_told_with_their_rate(tmp_path: Path):
    for number in range(8):
        port(tmp_path, f"mlx5_{number}")

    found = only(infiniband, context(tmp_path))

    assert found.outcome is Outcome.OK
    assert found.sentence == "8 ports active (InfiniBand 400 Gb/s)"
    assert found.measured["active"] == {f"mlx5_{number}/1": 1 for number in range(8)}
    assert "downs" not in found.measured


@pytest.mark.parametrize(
    ("second", "environment", "baseline", "outcome"),
    [
        (DOWN, {}, None, "warn"),  # nobody knows whether it was ever cabled
        (DOWN, {}, {"mlx5_0/1": 1, "mlx5_1/1": 0}, "ok"),  # it is not new
        (DOWN, {}, {"mlx5_0/1": 1, "mlx5_1/1": 1}, "fail"),
        (DOWN, {"NCCL_IB_HCA": "mlx5"}, None, "fail"),  # it was asked for
        (DOWN, {"NCCL_IB_HCA": "=mlx5_0"}, None, "ok"),
        (DOWN, {"NCCL_IB_HCA": "^mlx5_1"}, None, "ok"),
        (DOWN, {"NCCL_IB_HCA": "mlx5_0:1"}, None, "ok"),
        (OFF, {}, None, "ok"),  # somebody switched it off
        (OFF, {"NCCL_IB_HCA": "mlx5"}, None, "ok"),
        ({"state": "2: INIT", "link": "5: LinkUp"}, {}, None, "fail"),  # a cable, and no subnet manager
        ({"rate": "200 Gb/sec (4X HDR)"}, {}, None, "warn"),
        ({"layer": "Ethernet", "rate": "100 Gb/sec (4X EDR)"}, {}, None, "ok"),  # another network
        ({"layer": "Ethernet", "flags": "0x1002", **OFF}, {}, None, "ok"),
        ({"layer": "Ethernet", "flags": "0x1003", **OFF}, {}, None, "warn"),  # its device is meant to be up
    ],
)
def test_how_a_port_beside_a_good_one_is_judged(
    tmp_path: Path, second: dict[str, Any], environment: dict[str, str], baseline: dict[str, int] | None, outcome: str
):
    port(tmp_path, "mlx5_0")
    port(tmp_path, "mlx5_1", **second)
    before = None if baseline is None else {"infiniband": {"active": [{"old": 1}, baseline]}}

    found = only(infiniband, context(tmp_path, environment, baseline=before))

    assert found.outcome.value == outcome
    assert outcome == "ok" or (found.problem is Problem.NODE and "mlx5_1/1" in found.sentence)


def test_no_port_connected_is_a_warning_the_first_time_only(tmp_path: Path):
    port(tmp_path, "mlx5_0", **DOWN)
    known = {"infiniband": {"active": [{"mlx5_0/1": 0}]}}

    assert only(infiniband, context(tmp_path)).outcome is Outcome.WARN
    assert only(infiniband, context(tmp_path, baseline=known)).outcome is Outcome.OK


def test_a_name_that_no_device_has_is_the_users(tmp_path: Path):
    port(tmp_path, "mlx5_0")
    found = only(infiniband, context(tmp_path, {"NCCL_IB_HCA": "mlx4"}))
    assert (found.outcome, found.problem) == (Outcome.FAIL, Problem.USER)
    assert "mlx5_0" in found.sentence


@pytest.mark.parametrize(("before", "outcome"), [(None, "ok"), (3, "warn"), (5, "ok"), (9, "ok")])
def test_only_links_that_went_down_since_the_last_time_count(tmp_path: Path, before: int | None, outcome: str):
    port(tmp_path, "mlx5_0", downs=5)
    baseline = None if before is None else {"infiniband": {"downs": [{"mlx5_0/1": before}]}}

    found = only(infiniband, context(tmp_path, baseline=baseline))

    assert found.outcome.value == outcome
    assert found.measured["downs"] == {"mlx5_0/1": 5}


def test_a_virtual_function_is_asked_for_no_counter_for_each_read_would_be_a_line_in_the_kernels_log(tmp_path: Path):
    port(tmp_path, "mlx5_0", downs=5)
    tree(tmp_path, {"sys/class/infiniband/mlx5_0/device/physfn/vendor": ""})
    assert "downs" not in only(infiniband, context(tmp_path)).measured


@pytest.mark.parametrize(("board", "outcome"), [("MT_0000000838", "warn"), ("MT_0000000359", "ok")])
def test_a_card_is_held_against_others_of_its_kind_for_that_of_the_storage_may_be_slower(
    tmp_path: Path, board: str, outcome: str
):
    for number in range(2):
        port(tmp_path, f"mlx5_{number}", board="MT_0000000838")
    port(tmp_path, "mlx5_2", rate="200 Gb/sec (4X HDR)", board=board)
    assert only(infiniband, context(tmp_path)).outcome.value == outcome
