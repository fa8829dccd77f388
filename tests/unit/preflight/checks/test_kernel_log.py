"""What the kernel said, and how long it counts. The clock of a test stands at one day after the start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_resilience.preflight.checks.gpu.furniture import closed_to_us
from slurm_resilience.preflight.checks.kernel_log.log import log
from slurm_resilience.preflight.checks.kernel_log.source import from_text
from slurm_resilience.preflight.checks.kernel_log.trouble import Line, troubles
from slurm_resilience.preflight.checks.kernel_log.xid import ACTIONS, Action, action_of, read_xid
from slurm_resilience.preflight.result import Outcome
from tests.unit.preflight.checks.scene import complete, context, only, outcomes, tree

DAY_S = 86400.0
NOW_S, OLD_S = DAY_S - 60, DAY_S - 3 * 3600


def said(*texts: str, at_s: float | None = NOW_S) -> tuple[list[str], list[str]]:
    found, told = troubles([Line(at_s, text) for text in texts], uptime_s=DAY_S)
    for each in found:
        complete(each)
    return outcomes(found), told


XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=4711, name=python, and some words"


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (13, Action.RESTART_PROGRAM),
        (31, Action.RESTART_PROGRAM),
        (43, Action.NOTHING),
        (45, Action.RESTART_PROGRAM),
        (48, Action.RESET),
        (63, Action.NOTHING),
        (64, Action.RESET),
        (74, Action.RESET),
        (79, Action.RESTART_NODE),
        (92, Action.NOTHING),
        (94, Action.NOTHING),
        (95, Action.RESET),
        (119, Action.RESET),
        (145, Action.RESET),
        (54, Action.LOOK_AT_NODE),
        (1, Action.SUPPORT),
        (9999, Action.SUPPORT),
    ],
)
def test_the_table_says_what_nvidias_catalogue_says(number: int, action: Action):
    assert action_of(number) is action


def test_no_xid_stands_in_the_table_twice():
    from slurm_resilience.preflight.checks.kernel_log import xid

    ranges = [each for numbers in xid._OF_EACH.values() for each in numbers.split()]
    count = sum(
        int(each.partition("-")[2] or each.partition("-")[0]) - int(each.partition("-")[0]) + 1 for each in ranges
    )
    assert count == len(ACTIONS)


@pytest.mark.parametrize(
    ("line", "bus"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "0000:3b:00"),
        ("NVRM: Xid (0000:03:00): 79, 0001 00000000", "0000:03:00"),
        ("NVRM: Xid (PCI:0000:4e:00 GPU-I:05): 79, pid='<unknown>'", "0000:4e:00"),
        ("NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.", "0000:4e:00"),
    ],
)
def test_each_form_of_the_line_is_read(line: str, bus: str):
    assert read_xid(line) == (bus, 79, Action.RESTART_NODE)


@pytest.mark.parametrize("number", [63, 92, 94])
def test_a_card_that_has_mended_itself_is_told_and_drains_nothing(number: int):  # mej/nhc#147
    assert said(XID.format(number)) == ([], [f"Xid {number} of 0000:3b:00, 1 time, the last 60 s ago"])


@pytest.mark.parametrize(
    ("number", "outcome"), [(13, []), (79, ["fail"]), (48, ["fail"]), (54, ["fail"]), (1, ["warn"])]
)
def test_what_an_xid_asks_for_decides(number: int, outcome: list[str]):
    assert said(XID.format(number))[0] == outcome


def test_an_old_xid_is_told_and_fails_nothing():
    found, told = said(XID.format(79), at_s=OLD_S)
    assert found == []
    assert told == ["Xid 79 of 0000:3b:00, 1 time, the last 3 h ago"]


def test_many_of_one_kind_are_one_finding_with_their_number():
    found, _ = troubles([Line(NOW_S - at, XID.format(79)) for at in range(40)][::-1], uptime_s=DAY_S)
    assert len(found) == 1
    assert "40 times" in found[0].sentence


def test_a_card_that_is_lost_is_one_finding_in_whatever_words():
    wish = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    lost = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
    assert said(XID.format(79), lost)[0] == ["fail"]
    (found,), _ = troubles([Line(NOW_S, text) for text in (XID.format(79), lost, wish, XID.format(13))], uptime_s=DAY_S)
    assert found.sentence == (
        "Xid 79, Xid 154 of 0000:3b:00, 3 times, the last 60 s ago: NVIDIA asks that the node is started anew"
    )


def test_the_driver_takes_its_wish_back():
    wish = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    back = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert said(wish)[0] == ["fail"]
    assert said(XID.format(95), wish, back) == ([], [])
    assert said(wish, back, XID.format(95))[0] == ["fail"]
    assert said(wish, back.replace("3b", "4e"))[0] == ["fail"]


def test_an_nvswitch_fails_by_its_own_word_only():
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, {}, Link 32 egress non-posted PRIV error"
    assert said(line.format("Non-fatal"))[0] == []
    assert said(line.format("Fatal"))[0] == ["fail"]


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", ["fail"]),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", []),
        ("Memory failure: 0x1f2c3: recovery action for dirty page: Recovered", ["fail"]),
        ("mce: [Hardware Error]: Machine check events logged", []),
        ("{1}[Hardware Error]: event severity: fatal", ["fail"]),
        ("{1}[Hardware Error]: event severity: corrected", []),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received", ["fail"]),
        ("blk_update_request: I/O error, dev sda, sector 12345", ["warn"]),
        ("I/O error, dev sr0, sector 0", []),
        ("I/O error, dev loop7, sector 0", []),
        ("EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory", ["warn"]),
        ("XFS (dm-0): Corruption of in-memory data detected.  Shutting down filesystem", ["warn"]),
        ("nvme0: controller is down; will reset: CSTS=0xffffffff", ["warn"]),
        ("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out", ["warn"]),
        ("EXT4-fs (sda1): mounted filesystem with ordered data mode", []),
        ("python[4711]: segfault at 0 ip 00007f", []),
        ("Out of memory: Killed process 4711 (python)", []),
    ],
)
def test_only_hardware_is_trouble(line: str, outcome: list[str]):
    assert said(line)[0] == outcome
    assert said(line, at_s=OLD_S)[0] == []


def test_of_a_file_server_only_the_newest_word_counts():
    lost, back = "nfs: server fs1 not responding, still trying", "nfs: server fs1 OK"
    assert said(lost)[0] == ["warn"]
    assert said(lost, back)[0] == []
    assert said(lost, back, lost)[0] == ["warn"]
    assert said(lost, "nfs: server fs2 OK")[0] == ["warn"]
    assert said(lost, at_s=OLD_S)[0] == ["warn"]  # it has not answered since


def test_of_lustre_too():
    lost = (
        "Lustre: work-OST0003-osc-ffff: Connection to work-OST0003 (at 10.0.0.3@o2ib) was lost; in progress operations"
    )
    back = "Lustre: work-OST0003-osc-ffff: Connection restored to 10.0.0.3@o2ib (at 10.0.0.3@o2ib)"
    assert said(lost)[0] == ["warn"]
    assert said(lost, back)[0] == []


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:3b:00.0 ens1f0: Link down",
        "e1000e: eth3 NIC Link is Down",
        "ixgbe 0000:01:00.0 eth3: NIC Link is Down",
        "tg3 0000:02:00.0 eno1: Link is down",
        "bond0: (slave ens1f0): link status definitely down, disabling slave",
        "bond0: link status definitely down for interface ens1f0, disabling it",
    ],
)
def test_a_link_that_flaps_is_a_warning_and_one_that_went_down_once_is_told(line: str):
    assert said(line, line)[0] == ["warn"]
    once, told = said(line)
    assert once == []
    assert len(told) == 1


def test_an_old_flap_fails_for_ever_nowhere():  # gcm greps all of the syslog
    assert said(*["mlx5_core 0000:3b:00.0 ens1f0: Link down"] * 9, at_s=OLD_S) == ([], [])


def test_links_of_containers_and_those_of_the_start_are_no_flaps():
    assert said(*["veth12: Link is Down"] * 5) == ([], [])
    booting = [Line(30.0, "mlx5_core 0000:3b:00.0 ens1f0: Link down")] * 4
    assert troubles(booting, uptime_s=200.0) == ([], [])


def test_without_times_all_of_it_counts():
    assert said(XID.format(79), at_s=None)[0] == ["fail"]


def test_dmesg_and_the_journal_are_read_alike():
    dmesg = "[    0.000000] Linux version 6.18\n[51525.715808] NVRM: Xid (PCI:0000:3b:00): 79, x\n"
    journal = "[51525.715808] n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x\n-- Boot 12 --\n"
    assert from_text(dmesg)[1] == Line(51525.715808, "NVRM: Xid (PCI:0000:3b:00): 79, x")
    (line,) = from_text(journal)
    assert line.at_s == 51525.715808
    assert read_xid(line.text) is not None


def test_what_may_not_be_read_is_skipped_with_why(tmp_path: Path):
    found = only(log, context(tmp_path))
    assert found.outcome is Outcome.SKIPPED
    assert "No such file" in found.sentence


def test_records_of_the_kernel_are_read_one_by_one(tmp_path: Path):
    root = tree(tmp_path, {"proc/uptime": "86400.00 1.00", "dev/x": ""})
    os.mkfifo(root / "dev" / "kmsg")  # a read of it waits for nothing, like the kernel's
    writer = os.open(root / "dev" / "kmsg", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(writer, b"4,1,86390000000,-;" + XID.format(79).encode() + b"\n SUBSYSTEM=pci\n")
        found = only(log, context(root))
    finally:
        os.close(writer)
    assert found.outcome is Outcome.FAIL
    assert "10 s ago" in found.sentence
    assert found.measured["newest"].endswith("and some words")


@pytest.mark.parametrize(
    ("number", "bus", "outcome"),
    [
        (48, "0000:3b:00", Outcome.WARN),  # another job's card
        (48, "0000:86:00", Outcome.FAIL),
        (79, "0000:3b:00", Outcome.FAIL),  # the node is to be started anew, whosever card it is
    ],
)
def test_a_card_that_the_job_may_not_use_is_no_reason_to_leave_the_node_out(number: int, bus: str, outcome: Outcome):
    line = XID.format(number).replace("0000:3b:00", bus)
    (found,), _ = troubles([Line(NOW_S, line)], uptime_s=DAY_S, of_others=frozenset({"0000:3b:00"}))
    complete(found)
    assert found.outcome is outcome


def test_cards_that_may_not_be_opened_are_others(tmp_path: Path):
    for minor, bus in enumerate(("0000:3B:00.0", "0000:86:00.0")):
        information = f"Model: \t\t NVIDIA H100\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
        tree(tmp_path, {f"proc/driver/nvidia/gpus/{bus}/information": information, f"dev/nvidia{minor}": ""})
    assert closed_to_us(tmp_path, lambda device, _: device.name != "nvidia0") == {"0000:3b:00"}
    assert closed_to_us(tmp_path, lambda _, __: True) == frozenset()
    assert closed_to_us(tmp_path / "nowhere", lambda _, __: False) == frozenset()
