"""The interfaces that a job was told to use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.preflight.checks.fabric.interfaces import interfaces
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import context, only, tree


def net(root: Path, **states: str) -> Path:
    """Each `up`, `down` (no carrier) or `off`."""
    for name, state in {"lo": "up", **states}.items():
        folder = f"sys/class/net/{name}"
        flags = "0x1002" if state == "off" else "0x1003"
        files = {
            f"{folder}/flags": flags,
            f"{folder}/mtu": "9000",
            f"{folder}/speed": "100000" if state == "up" else "-1",
        }
        if state != "off":
            files[f"{folder}/carrier"] = "1" if state == "up" else "0"
        tree(root, files)
    tree(root, {"sys/class/net/bonding_masters": "bond0"})
    return root


def say_addresses(**of_each: list[str]) -> Any:
    return lambda: of_each


ALL = say_addresses(lo=["127.0.0.1"], eth0=["10.0.0.1"], eth1=["10.1.0.1"], ib0=["10.2.0.1"])


def test_where_none_is_named_those_that_work_are_told(tmp_path: Path):
    found = only(interfaces, context(net(tmp_path, eth0="up", ib0="up", eth1="down")), ALL)
    assert found.outcome is Outcome.OK
    assert found.sentence == "none is named; up with an address: eth0, ib0"
    assert found.measured["speeds_mb_s"] == {"eth0": 100000, "ib0": 100000}
    assert found.measured["mtus"] == {"eth0": 9000, "ib0": 9000}


@pytest.mark.parametrize(
    ("environment", "outcome", "problem"),
    [
        ({"NCCL_SOCKET_IFNAME": "eth"}, "ok", None),  # eth1 is down, eth0 is not
        ({"NCCL_SOCKET_IFNAME": "eth1"}, "fail", Problem.NODE),
        ({"NCCL_SOCKET_IFNAME": "=eth0,eth1"}, "fail", Problem.NODE),
        ({"NCCL_SOCKET_IFNAME": "^docker,lo"}, "ok", None),
        ({"NCCL_SOCKET_IFNAME": "^eth,ib,off,bare"}, "fail", Problem.USER),  # nothing is left
        ({"NCCL_SOCKET_IFNAME": "nosuch"}, "fail", Problem.USER),
        ({"NCCL_SOCKET_IFNAME": "=eth0,nosuch"}, "ok", None),
        ({"GLOO_SOCKET_IFNAME": "nosuch0"}, "fail", Problem.USER),
        ({"GLOO_SOCKET_IFNAME": "eth0,nosuch0"}, "fail", Problem.USER),
        ({"GLOO_SOCKET_IFNAME": "eth"}, "fail", Problem.USER),  # whole names only
        ({"GLOO_SOCKET_IFNAME": "eth1"}, "fail", Problem.NODE),
        ({"GLOO_SOCKET_IFNAME": "off0"}, "fail", Problem.NODE),
        ({"GLOO_SOCKET_IFNAME": "bare0"}, "fail", Problem.NODE),
        ({"TP_SOCKET_IFNAME": "nosuch0"}, "fail", Problem.USER),
        ({"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "ib0"}, "warn", Problem.USER),
        ({"NCCL_SOCKET_IFNAME": "eth,ib", "GLOO_SOCKET_IFNAME": "ib0"}, "ok", None),
    ],
)
def test_interfaces_that_are_named(tmp_path: Path, environment: dict[str, str], outcome: str, problem: Problem | None):
    root = net(tmp_path, eth0="up", eth1="down", ib0="up", off0="off", bare0="up")

    found = only(interfaces, context(root, environment), ALL)

    assert (found.outcome.value, found.problem) == (outcome, problem)


def test_what_the_option_names_counts_like_a_variable(tmp_path: Path):
    root = net(tmp_path, eth0="up", ib0="up")
    assert only(interfaces, context(root, interface="eth7"), ALL).problem is Problem.USER
    both = only(interfaces, context(root, {"GLOO_SOCKET_IFNAME": "ib0"}, interface="eth0"), ALL)
    assert both.outcome is Outcome.WARN
    assert "--interface means eth0" in both.sentence


def test_a_file_of_nccl_names_interfaces_too(tmp_path: Path):
    root = tree(net(tmp_path, eth0="up"), {"etc/nccl.conf": "NCCL_SOCKET_IFNAME=nosuch\n"})
    assert only(interfaces, context(root), ALL).outcome is Outcome.FAIL


@pytest.mark.parametrize(("nodes", "outcome"), [("1", "ok"), ("2", "fail")])
def test_a_node_with_a_loopback_only_can_train_alone(tmp_path: Path, nodes: str, outcome: str):
    found = only(interfaces, context(net(tmp_path), {"SLURM_NNODES": nodes}), ALL)
    assert found.outcome.value == outcome


def test_a_container_without_sys_says_nothing_about_interfaces(tmp_path: Path):
    for environment in ({"SLURM_NNODES": "2"}, {"NCCL_SOCKET_IFNAME": "eth0"}):
        assert only(interfaces, context(tmp_path, environment), ALL).outcome is Outcome.SKIPPED
