"""Clock, power and firewall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.preflight.checks.node.clock import KernelClock, kernel_clock, time_sync
from slurm_resilience.preflight.checks.node.firewall import firewall
from slurm_resilience.preflight.checks.node.power import power
from slurm_resilience.preflight.result import Outcome, Problem
from tests.unit.preflight.checks.scene import (
    Programs,
    context,
    only,
    tree,
)

KEPT, FREE = KernelClock(0x1, 0.01), KernelClock(0x40, 16.0)


@pytest.mark.parametrize(
    ("clock", "programs", "outcome"),
    [
        (KEPT, {}, "ok"),
        (FREE, {}, "warn"),
        (FREE, {"chronyc": "Leap status     : Normal\n"}, "ok"),  # chronyd -x tells the kernel nothing
        (FREE, {"chronyc": "Leap status     : Not synchronised\n"}, "warn"),
        (FREE, {"timedatectl": "System clock synchronized: yes\n"}, "ok"),
        (FREE, {"timedatectl": "System clock synchronized: no\n"}, "warn"),
        (FREE, {"chronyc": 1, "timedatectl": "hangs"}, "warn"),
        (None, {}, "skipped"),
        (None, {"chronyc": "Leap status     : Normal\n"}, "ok"),
    ],
)
def test_who_keeps_the_clock(tmp_path: Path, clock: KernelClock | None, programs: dict[str, Any], outcome: str):
    found = only(time_sync, context(tmp_path), ask=lambda: clock, runner=Programs(programs))
    assert found.outcome.value == outcome


def test_the_kernel_tells_its_clock_to_everybody():
    found = kernel_clock()
    assert found is not None
    assert 0 <= found.status < 1 << 16
    assert 0 <= found.error_s < 1000


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("OL", "ok"),
        ("OL CHRG", "ok"),
        ("OB", "warn"),
        ("OB DISCHRG", "warn"),
        ("OB LB", "fail"),
        ("FSD OB", "fail"),
        ("OL RB", "warn"),
    ],
)
def test_power_supplies(tmp_path: Path, status: str, outcome: str):
    programs = Programs({"upsc -l": "rack1\n", "upsc rack1 ups.status": f"{status}\n"})
    found = only(power, context(tmp_path), runner=programs)
    assert found.outcome.value == outcome
    assert found.problem in (None, Problem.NODE)


@pytest.mark.parametrize(
    "programs", [{}, {"upsc": 1}, {"upsc": "hangs"}, {"upsc -l": "rack1\n", "upsc": 1}, {"upsc": ""}]
)
def test_without_nut_there_is_nothing_to_ask(tmp_path: Path, programs: dict[str, Any]):
    assert only(power, context(tmp_path), runner=Programs(programs)).outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("files", "programs", "words"),
    [
        ({"sys/fs/selinux/enforce": "1"}, {}, "SELinux enforcing"),
        ({"sys/fs/selinux/enforce": "0"}, {}, "SELinux permissive"),
        ({"sys/module/apparmor/parameters/enabled": "Y"}, {}, "AppArmor enabled"),
        ({"proc/modules": "nf_tables 1 0 - Live\n"}, {"nft": 1}, "nftables loaded"),
        ({}, {"nft": "table inet f {\n tcp dport 22 drop\n}"}, "nftables with 1 rules that refuse"),
        ({}, {"iptables": "-P INPUT ACCEPT\n"}, "iptables refuses nothing"),
        ({}, {"firewall-cmd": "running\n"}, "firewalld running"),
    ],
)
def test_a_firewall_is_an_explanation_and_never_a_verdict(
    tmp_path: Path, files: dict[str, str], programs: dict[str, Any], words: str
):
    found = only(firewall, context(tree(tmp_path, files)), runner=Programs(programs))
    assert found.outcome is Outcome.OK
    assert words in found.sentence


def test_nothing_to_be_seen_of_a_firewall_is_skipped(tmp_path: Path):
    assert only(firewall, context(tmp_path), runner=Programs({})).outcome is Outcome.SKIPPED
