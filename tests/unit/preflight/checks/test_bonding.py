"""Bonds, as /proc would show them: to root, and to everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.preflight.checks.fabric.bond import read_bond
from slurm_resilience.preflight.checks.fabric.bonding import bonding
from slurm_resilience.preflight.result import Outcome
from tests.unit.preflight.checks.scene import context, findings, only, outcomes, tree

HEAD = """Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: {mode}
Transmit Hash Policy: layer3+4 (1)
MII Status: {status}
MII Polling Interval (ms): {polling}
Up Delay (ms): 0
Down Delay (ms): 0
"""
LACP = """
802.3ad info
LACP active: on
LACP rate: fast
Aggregator selection policy (ad_select): stable
System MAC address: 0c:42:a1:00:00:01
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tPartner Mac Address: {partner}
"""
SLAVE = """
Slave Interface: {name}
MII Status: {status}
Speed: {speed}
Duplex: {duplex}
Link Failure Count: {failures}
Permanent HW addr: 0c:42:a1:00:00:01
Slave queue ID: 0
"""
SLAVE_LACP = """Aggregator ID: {aggregator}
Actor Churn State: none
Partner Churn State: {churn}
Actor Churned Count: 0
Partner Churned Count: 0
"""
SLAVE_OF_ROOT = """details actor lacp pdu:
    system priority: 65535
    system mac address: 0c:42:a1:00:00:01
details partner lacp pdu:
    system priority: 127
    system mac address: {partner}
    oper key: 15
"""
SWITCH, NOBODY = "ec:8a:48:00:00:02", "00:00:00:00:00:00"
LACP_MODE = "IEEE 802.3ad Dynamic link aggregation"


def bond_text(
    *slaves: dict[str, Any], mode: str = LACP_MODE, status: str = "up", polling: int = 100, root: bool = True
) -> str:
    """`root`: only root is told the partner (CAP_NET_ADMIN)."""
    text = HEAD.format(mode=mode, status=status, polling=polling)
    if mode == LACP_MODE and root:
        text += LACP.format(partner=slaves[0].get("partner", SWITCH) if slaves else NOBODY)
    for number, slave in enumerate(slaves):
        values = {
            "name": f"eth{number}",
            "status": "up",
            "speed": "100000 Mbps",
            "duplex": "full",
            "failures": 0,
            "aggregator": 1,
            "churn": "none",
            "partner": SWITCH,
            **slave,
        }
        text += SLAVE.format(**values)
        if mode == LACP_MODE:
            text += SLAVE_LACP.format(**values) + (SLAVE_OF_ROOT.format(**values) if root else "")
    return text


def bond(tmp_path: Path, text: str) -> Path:
    return tree(tmp_path, {"proc/net/bonding/bond0": text})


def test_a_bond_is_read_whole():
    found = read_bond("bond0", bond_text({"failures": 2}, {"speed": "Unknown", "duplex": "Unknown", "status": "down"}))

    assert (found.mode, found.up, found.polling_ms, found.partner) == (LACP_MODE, True, 100, SWITCH)
    first, second = found.slaves
    assert (first.name, first.up, first.speed_mb_s, first.duplex, first.failures) == ("eth0", True, 100000, "full", 2)
    assert (first.aggregator, first.partner) == (1, SWITCH)
    assert (second.up, second.speed_mb_s, second.duplex) == (False, None, None)


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        (bond_text({}, {}), "ok", "2 links up"),
        (bond_text({}, {}, root=False), "ok", "2 links up"),
        (
            bond_text({}, {"status": "down", "speed": "Unknown", "duplex": "Unknown"}),
            "warn",
            "eth1 is down, 1 of 2 links left",
        ),
        (bond_text({"status": "down"}, {"status": "down"}, status="down"), "fail", "none of its links is up"),
        (bond_text({"partner": NOBODY}, {"partner": NOBODY}), "warn", "no switch speaks LACP with it"),
        # as it was seen: each link is an aggregator of its own then
        (bond_text({"partner": NOBODY}, {"partner": NOBODY, "aggregator": 2}), "warn", "no switch speaks LACP with it"),
        (bond_text({"churn": "churned"}, {"churn": "churned"}, root=False), "warn", "no switch speaks LACP with it"),
        (bond_text({}, {"partner": NOBODY}), "warn", "no switch speaks LACP on eth1"),
        (bond_text({}, {"churn": "churned"}, root=False), "ok", "2 links up"),  # kernels may never take that back
        (bond_text({}, {"aggregator": 2}), "warn", "2 aggregators"),
        (bond_text({}, {"aggregator": 2}, root=False), "warn", "2 aggregators"),
        (bond_text({}, {"speed": "10000 Mbps"}), "warn", "different speeds"),
        (bond_text({}, {"duplex": "half"}), "warn", "different duplex"),
        (bond_text({}, {}, polling=0), "warn", "miimon is 0"),
        (bond_text({}, {}, polling=0).replace("Up Delay", "ARP Polling Interval (ms): 100\nUp Delay"), "ok", "2 links"),
        (bond_text({}, {"aggregator": 2}, mode="fault-tolerance (active-backup)"), "ok", "active-backup"),
        # a slow link in reserve is how some are built
        (bond_text({}, {"speed": "1000 Mbps"}, mode="fault-tolerance (active-backup)"), "ok", "active-backup"),
        (bond_text({"failures": 3}, {}), "ok", "2 links"),  # of its life: nobody knows when
        (bond_text(), "skipped", "no bond"),
    ],
)
def test_each_thing_that_goes_wrong_with_a_bond(tmp_path: Path, text: str, outcome: str, words: str):
    found = only(bonding, context(bond(tmp_path, text)))

    assert found.outcome.value == outcome
    assert words in found.sentence


@pytest.mark.parametrize(("before", "outcome"), [(1, "warn"), (3, "ok")])
def test_failures_since_the_last_time_count(tmp_path: Path, before: int, outcome: str):
    baseline = {"bonding": {"link_failures": [{"bond0/eth0": before, "bond0/eth1": 0}]}}

    found = only(bonding, context(bond(tmp_path, bond_text({"failures": 3}, {})), baseline=baseline))

    assert found.outcome.value == outcome
    assert found.measured["link_failures"] == {"bond0/eth0": 3, "bond0/eth1": 0}


def test_several_problems_of_one_bond_are_all_told(tmp_path: Path):
    text = bond_text({}, {"aggregator": 2, "speed": "10000 Mbps"}, polling=0)
    assert outcomes(findings(bonding, context(bond(tmp_path, text)))) == ["warn"] * 3


def test_without_bonds_there_is_nothing_to_say(tmp_path: Path):
    assert only(bonding, context(tmp_path)).outcome is Outcome.SKIPPED
